// Records at first sight: a tile with what is looked at or read, or a row of a table.

import { count, el, link } from "./dom.js";
import { layered, lines, value } from "./drawing.js";
import { badge } from "./marks.js";

const ORDER = ["frames", "mask", "series", "text", "audio", "tokens", "embedding", "array", "number", "bytes"];

export const named = (roles, ...wanted) => Object.keys(roles).filter((name) => wanted.includes(roles[name]));

export function title(record, roles) {
  const [label] = named(roles, "label").map((name) => record.fields[name]).filter(Boolean);
  return label ? label.text : "";
}

/** What a record looks like, in little room. */
export function look(record, where, roles, side = 224) {
  if (record.problem) return el("span", { class: "broken" }, record.problem);
  const pictures = named(roles, "image");
  const picture = pictures.find((name) => record.fields[name]);
  if (picture && record.fields[picture].kind === "image") {
    return layered(where, picture, record.fields[picture], record, named(roles, "mask").filter((name) => record.fields[name]), side);
  }
  const first = [...pictures, ...ORDER.flatMap((role) => named(roles, role))].find((name) => record.fields[name]) || Object.keys(record.fields)[0];
  if (!first) return el("code", { class: "bytes" }, record.preview || "(empty)");
  const shown = record.fields[first];
  if (shown.kind === "audio") return shown.lines ? lines(shown) : el("span", { class: "text" }, "sound", el("br"), shown.text || "");
  if (shown.kind === "frames") return value(where, first, { ...shown, count: Math.min(1, shown.count) }, record);
  return value(where, first, shown, record, { side });
}

/** A record as a small tile that leads to it; a caption says what the picture does not. */
export function face(record, { d, roles, opens, caption = [], side = 112 }) {
  const name = title(record, roles);
  const where = { d, split: record.split, row: record.row };
  return link("record", opens, { class: "tile small", "aria-label": [`Record ${record.row} of ${record.split}`, name, record.problem].filter(Boolean).join(", ") },
    look(record, where, roles, side), caption.map((line) => el("span", { class: "caption" }, line)), badge(record.mark));
}

/** Records as rows of a table, by some of their columns. */
export function rowsOf(records, names, { d, opens, roles }) {
  const shown = names.filter((name) => records.some((record) => record.fields[name]));
  const cell = (record, name) => (record.fields[name] ? value({ d, split: record.split, row: record.row }, name, record.fields[name], record, { side: 112 }) : el("span", { class: "quiet" }, "missing"));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Some records" }, el("table", { class: "records" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "record"), shown.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, records.map((record) => el("tr", {},
      el("th", { scope: "row" }, link("record", opens(record), {}, `${record.split} ${count(record.row)}`)),
      record.problem ? el("td", { colspan: Math.max(1, shown.length), class: "broken" }, record.problem) : shown.map((name) => el("td", {}, cell(record, name))))))));
}
