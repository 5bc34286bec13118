// The frame of the page: the header, the keyboard, and which view the address asks for.

import { ask, choice, el, go, here, link, onMove, say } from "./dom.js";
import { overview } from "./overview.js";
import { browse } from "./browse.js";
import { batches } from "./batches.js";
import { compare } from "./compare.js";
import { duplicates, labels, quarantine } from "./findings.js";
import { record } from "./record.js";
import { run, runs } from "./runs.js";

const views = { "": overview, browse, record, compare, batches, duplicates, labels, quarantine, runs, run };
// The address of each view, its name, and when there is something to see.
const tabs = [
  ["", "Overview", (_, dataset) => dataset], ["browse", "Browse", (_, dataset) => dataset],
  ["duplicates", "Duplicates", (_, dataset) => dataset], ["labels", "Labels", (_, dataset) => dataset && dataset.features.some((feature) => feature.role === "label")],
  ["compare", "Compare", (_, dataset) => dataset],
  ["batches", "What the model sees", (_, dataset) => dataset], ["quarantine", "Quarantine", (_, dataset) => dataset && dataset.is_built],
  ["runs", "Runs", (known) => known.runs.length],
];

const main = document.getElementById("main");
let known = null;
let current = null;

async function render() {
  const { page, params } = here();
  const start = known && !known.datasets.length ? runs : overview;
  const view = page ? views[page] || start : start;
  const turn = Symbol(page);
  current = { turn, keys: {}, stop: new AbortController() };
  const mine = current;
  try {
    known = known || await ask("overview");
    if (!page && !known.datasets.length && view !== runs) { current = null; return render(); }
    header(page, params);
    const context = {
      known, params, dataset: known.datasets[Number(params.d || 0)], stop: mine.stop.signal,
      keys: (keys) => Object.assign(mine.keys, keys),
      put: (...children) => { if (current === mine) main.replaceChildren(...children.flat().filter(Boolean)); return current === mine; },
      isCurrent: () => current === mine,
      refresh: async () => { known = await ask("overview"); header(page, params); return known; },
    };
    await view(context);
  } catch (error) {
    if (current === mine && error.name !== "AbortError") {
      main.replaceChildren(el("h1", {}, "This cannot be shown"), el("div", { class: "problem", role: "alert" }, error.message),
        el("p", {}, link("", {}, {}, "To the overview")));
    }
  }
  const name = known && known.datasets[Number(params.d || 0)];
  document.title = [(tabs.find(([key]) => key === page) || ["", page])[1], name && name.name, "bushel"].filter(Boolean).join(" · ");
}

function header(page, params) {
  const d = params.d || "0";
  const several = known.datasets.length > 1;
  document.getElementById("top").replaceChildren(
    link("", { d }, { class: "brand" }, "bushel"),
    several ? choice("Dataset", known.datasets.map((one, at) => [String(at), one.name]), d, (next) => go(page, { d: next })) :
      el("span", { class: "where", title: known.datasets[0] ? known.datasets[0].where : "" }, known.datasets[0] ? known.datasets[0].name : ""),
    el("nav", { "aria-label": "Views" }, tabs.filter(([, , when]) => !when || when(known, known.datasets[Number(d)])).map(([key, text]) =>
      link(key, { d, split: key ? params.split : undefined, roles: params.roles }, { "aria-current": key === page ? "page" : undefined }, text))),
    el("button", { type: "button", class: "help", "aria-label": "Keyboard help", onclick: help }, "?"));
}

const KEYS = [
  ["/", "search for text"], ["← → ↑ ↓", "move between records"], ["Enter", "open the record"],
  ["n, p", "next and previous page"], ["g", "grid or table"], ["d", "mark: drop"], ["r", "mark: wrong label"], ["l", "mark: look again"], ["u", "remove the mark"], ["Escape", "back to the records"], ["?", "this help"],
];

function help() {
  const dialog = el("dialog", { "aria-labelledby": "keys", class: "keys" }, el("h2", { id: "keys" }, "Keyboard"),
    el("dl", {}, KEYS.map(([key, text]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, text)])),
    el("form", { method: "dialog" }, el("button", { autofocus: true }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.querySelector("button").addEventListener("click", (event) => { event.preventDefault(); dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  const isTyping = event.target.closest("input, textarea, select, audio");
  if (isTyping) { if (event.key === "Escape") event.target.blur(); return; }
  if (event.key === "?") { help(); event.preventDefault(); return; }
  const act = current && current.keys[event.key];
  if (act) { if (act(event) !== false) event.preventDefault(); }
});

window.addEventListener("popstate", render);
onMove(() => { current && current.stop.abort(); render().then(() => { window.scrollTo(0, 0); }); });
render();
window.addEventListener("unhandledrejection", (event) => { if (event.reason && event.reason.name !== "AbortError") say(String(event.reason.message || event.reason)); });
