// Marks: drop, another label, look again. They go to the file that was chosen, never into the dataset.

import { el, say, tell } from "./dom.js";

/** The keys that mark the record in focus, or the one that is open. */
export function marking() { return {}; }

export function markBar() { return null; }
void el; void say; void tell;
