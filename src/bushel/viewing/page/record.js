// One record: every feature, where it is, its bytes, and how to open it elsewhere.

import { ask, choice, copyable, count, el, go, link, plural, size } from "./dom.js";
import { value } from "./drawing.js";
import { markBar, marking } from "./marks.js";
import { rolesOf } from "./browse.js";
import { named } from "./tiles.js";

const ROLES = ["image", "frames", "mask", "boxes", "keypoints", "label", "text", "tokens", "audio", "series", "embedding", "array", "number", "bytes"];

export async function record({ dataset, params, put, stop, keys, known, isCurrent }) {
  const d = params.d || "0";
  const found = await ask("record", { d, split: params.split, row: params.row, roles: params.roles }, stop);
  const where = { d, split: found.split, row: found.row };
  const masks = named(rolesOf(dataset, params), "mask").filter((name) => found.fields.some((field) => field.name === name));
  const to = (row) => go("record", { ...params, row });
  const back = Object.fromEntries(new URLSearchParams(params.from || ""));
  const setRole = (name, role) => {
    const roles = { ...Object.fromEntries((params.roles || "").split(",").filter(Boolean).map((pair) => [pair.slice(0, pair.lastIndexOf(":")), pair.slice(pair.lastIndexOf(":") + 1)])), [name]: role };
    go("record", { ...params, roles: Object.entries(roles).map(([key, one]) => `${key}:${one}`).join(",") });
  };
  keys({
    ArrowLeft: () => found.row > 0 && to(found.row - 1),
    ArrowRight: () => found.row + 1 < found.of && to(found.row + 1),
    Escape: () => go("browse", { d, split: found.split, ...back }),
  });
  const marks = markBar({ known, where, dataset, mark: found.mark });
  keys(marking({ known, d, split: found.split, row: found.row, dataset, isCurrent, bar: marks }));
  const hex = el("div", { class: "hex" });
  put(
    el("nav", { class: "paging", "aria-label": "Records" },
      link("browse", { d, split: found.split, ...back }, {}, "Back to the records"),
      el("button", { type: "button", disabled: found.row <= 0, onclick: () => to(found.row - 1) }, "Previous"),
      el("button", { type: "button", disabled: found.row + 1 >= found.of, onclick: () => to(found.row + 1) }, "Next")),
    el("h1", {}, `Record ${count(found.row)}`, el("span", { class: "quiet" }, ` of ${count(found.of)} in ${found.split}`)),
    found.problem ? el("div", { class: "problem", role: "alert" }, found.problem) : null,
    marks,
    found.predicted.map((said) => el("p", {}, `${said.run}: `, said.predicted === undefined ? "" : `predicted ${said.predicted}${said.probability === undefined ? "" : ` (${(100 * said.probability).toFixed(0)}%)`}, label ${said.label}, `, `loss ${said.loss.toPrecision(3)}`)),
    el("dl", { class: "features" }, found.fields.map((field) => [
      el("dt", {}, el("strong", {}, field.name), el("small", {}, field.type),
        choice(`Role of ${field.name}`, ROLES.map((one) => [one, one]), field.role, (next) => setRole(field.name, next))),
      el("dd", {}, value(where, field.name, field, found, { side: 1024, masks: field.role === "image" ? masks : [] }),
        ["image", "mask"].includes(field.kind) ? el("p", { class: "quiet" }, `${field.text}${field.bytes ? `, ${size(field.bytes)}` : ""}`) : null,
        ["line", "heat"].includes(field.kind) ? el("p", { class: "quiet numbers" }, field.text) : null,
        field.ids ? el("p", { class: "quiet numbers" }, field.ids) : null,
        field.code !== undefined ? el("p", { class: "quiet" }, `code ${field.code}`) : null)])),
    found.boxes.some((box) => box.bad) ? el("p", { class: "problem" }, found.boxes.map((box, at) => (box.bad ? `Box ${at + 1}${box.name ? ` (${box.name})` : ""}: ${box.bad}. ` : ""))) : null,
    found.missing.length ? el("p", {}, `Missing: ${found.missing.join(", ")}`) : null,
    el("h2", {}, "Where it is"),
    el("dl", { class: "facts" }, [
      ["file", found.place.shard], ["record in the file", count(found.place.record)], ["byte", count(found.place.byte)],
      ["bytes", count(found.place.bytes)], ["checksum of the data", found.place.checksum || "–"],
      ["key", found.key], ["SHA-256 of the file", found.place.sha256],
    ].filter(([, text]) => text).map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])),
    el("h2", {}, "Copy as code"), Object.values(found.code).map(copyable),
    el("details", { ontoggle: (event) => { if (event.target.open && !hex.childElementCount) bytes(hex, where, 0); } },
      el("summary", {}, "Raw bytes, with header and footer"), hex));
}

async function bytes(place, where, begin) {
  const found = await ask("hex", { ...where, begin });
  const lines = [];
  for (let at = 0; at < found.hex.length; at += 32) {
    const line = found.hex.slice(at, at + 32).match(/../g) || [];
    const text = line.map((pair) => { const code = parseInt(pair, 16); return code >= 32 && code < 127 ? String.fromCharCode(code) : "·"; }).join("");
    lines.push(`${(begin + at / 2).toString(16).padStart(8, "0")}  ${line.join(" ").padEnd(47)}  ${text}`);
  }
  const next = begin + found.hex.length / 2;
  place.append(el("pre", { tabindex: "0" }, lines.join("\n") || "(no bytes)"));
  if (next < found.of) {
    const more = el("button", { type: "button", onclick: () => { more.remove(); bytes(place, where, next); } }, `${plural(found.of - next, "byte")} more`);
    place.append(more);
  }
}
