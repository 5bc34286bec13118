// Marks: drop, another label, look again. They go to the file that was chosen, never into the dataset.

import { el, say, tell } from "./dom.js";

const WORDS = { drop: "drop", label: "label", look: "look again" };

export function badge(mark) {
  if (!mark || !mark.mark) return null;
  return el("span", { class: `badge ${mark.mark}` }, mark.mark === "label" ? `→ ${mark.label}` : WORDS[mark.mark]);
}

async function put(where, kind, label, after) {
  try {
    const done = await tell("marks", { ...where, mark: kind, label });
    say(done.mark ? `Marked: ${WORDS[done.mark]}${done.label ? ` ${done.label}` : ""}. ${done.count} in all.` : `The mark is removed. ${done.count} left.`);
    after(done);
  } catch (error) { say(error.message); }
}

/** Ask for the right label. */
function choose(dataset, then) {
  const input = el("input", { type: "text", list: "classes", autofocus: true, autocomplete: "off", "aria-label": "Right label" });
  const dialog = el("dialog", { "aria-labelledby": "right" }, el("h2", { id: "right" }, "Right label"),
    input, el("datalist", { id: "classes" }, dataset.classes.map((name) => el("option", { value: name }))),
    el("div", { class: "paging" }, el("button", { type: "button", class: "ok" }, "Mark"), el("button", { type: "button", class: "no" }, "Cancel")));
  const done = () => { if (input.value.trim()) { dialog.close(); then(input.value.trim()); } };
  dialog.querySelector(".ok").addEventListener("click", done);
  dialog.querySelector(".no").addEventListener("click", () => dialog.close());
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); done(); } });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** The keys that mark the record in focus, or the one that is open. */
export function marking({ known, d, split, row, places = [], dataset, bar }) {
  const none = () => say("Start bushel view with --marks FILE to mark records.");
  const target = () => {
    if (row !== undefined) return { row, show: (mark) => bar && bar.show(mark) };
    const tile = places.find((place) => place === document.activeElement);
    if (!tile) return null;
    return { row: Number(tile.dataset.row), show: (mark) => { const old = tile.querySelector(".badge"); const made = badge(mark); if (old) old.remove(); if (made) tile.append(made); } };
  };
  const act = (kind) => () => {
    if (!known.marks) { none(); return true; }
    const found = target();
    if (!found) return false;
    const where = { d, split, row: found.row };
    if (kind === "label") choose(dataset, (label) => put(where, kind, label, found.show));
    else put(where, kind, "", found.show);
    return true;
  };
  return { d: act("drop"), r: act("label"), l: act("look"), u: act("none") };
}

export function markBar({ known, where, dataset, mark }) {
  if (!known.marks) return null;
  const place = el("span", {});
  const bar = el("div", { class: "marks", role: "group", "aria-label": "Marks" }, place);
  bar.show = (found) => place.replaceChildren(badge(found) || el("span", { class: "quiet" }, "not marked"));
  const set = (kind, label) => put(where, kind, label, bar.show);
  bar.append(
    el("button", { type: "button", onclick: () => set("drop") }, "Drop (d)"),
    el("button", { type: "button", onclick: () => choose(dataset, (label) => set("label", label)) }, "Wrong label (r)"),
    el("button", { type: "button", onclick: () => set("look") }, "Look again (l)"),
    el("button", { type: "button", onclick: () => set("none") }, "Remove (u)"));
  bar.show(mark);
  return bar;
}
