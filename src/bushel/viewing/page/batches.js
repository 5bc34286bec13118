// Records as a model is fed them, beside what is stored.

import { ask, choice, count, el, figure, go, link, plural, table } from "./dom.js";
import { value } from "./drawing.js";

export async function batches({ dataset, params, put, stop }) {
  const d = params.d || "0";
  const split = params.split || dataset.splits[0].name;
  put(el("h1", {}, "What the model sees"), el("p", { class: "quiet" }, "Feeding some records…"));
  const found = await ask("batches", { ...params, d, split }, stop);
  const { options, inputs } = found;
  const move = (changed) => go("batches", { ...params, ...options, d, split, ...changed });
  const input = (name, label, type, wide) => el("label", { class: "field" }, el("span", {}, label),
    el("input", { type, value: options[name], size: wide, onchange: (event) => move({ [name]: event.target.value }) }));
  const isPixels = found.ranges.length > 0;
  const isPairs = inputs.length === 1 && found.records.every(({ cells }) => cells[inputs[0].name].stored.kind === "pictures");
  const where = (row) => ({ d, split, row });
  return put(el("h1", {}, "What the model sees"),
    el("form", { class: "toolbar", onsubmit: (event) => event.preventDefault() },
      choice("Split", dataset.splits.map((one) => [one.name, one.name]), split, (next) => move({ split: next, start: undefined })),
      isPixels ? input("size", "Size", "number", 5) : null, input("augment", "Augmentation", "text", 34),
      isPixels ? choice("Range", found.ranges.map((one) => [one, one]), options.range, (next) => move({ range: next })) : null,
      el("button", { type: "button", onclick: () => move({ seed: String(Number(options.seed) + 1) }) }, "Draw again")),
    table(["input", "fed as", "batch", "from", "to", "mean", "deviation", "missing"], inputs.map((one) => [
      one.name, one.words, `${one.shape.join(" × ")} ${one.dtype}`, figure(one.low), figure(one.high), figure(one.mean), figure(one.deviation),
      one.missing ? count(one.missing) : "–"]), { label: "Inputs" }),
    found.notes.map((note) => el("p", { class: "quiet" }, note)),
    el("p", { class: "quiet" }, `${plural(found.records.length, "record")}: ${isPairs ? "each without augmentation, and with it." : "each value as it is stored, and below it as it is fed."}`),
    isPairs ? pairs(found, where) : rows(found, where));
}

function cell(where, name, shown, alt) {
  if (shown.kind === "pictures") return el("span", { class: "strip" }, shown.pictures.map((src) => el("img", { src, alt: `${name} of record ${where.row}, ${alt}` })));
  return shown.kind ? value(where, name, shown, {}) : el("span", { class: "quiet" }, "missing");
}

function pairs(found, where) {
  const [{ name }] = found.inputs;
  return el("ul", { class: "grid pairs" }, found.records.map(({ row, cells }) => el("li", {}, link("record", where(row), { class: "tile" },
    el("span", { class: "pair" }, cell(where(row), name, cells[name].stored, "as it is"), cell(where(row), name, cells[name].fed, "augmented")),
    el("span", { class: "caption" }, el("span", { class: "number" }, count(row)))))));
}

function rows(found, where) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Records as fed" }, el("table", { class: "records fed" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "record"), found.inputs.map((one) => el("th", { scope: "col" }, one.name)))),
    el("tbody", {}, found.records.map(({ row, cells }) => el("tr", {}, el("th", { scope: "row" }, link("record", where(row), {}, count(row))),
      found.inputs.map(({ name }) => el("td", {}, cell(where(row), name, cells[name].stored, "as stored"), el("div", { class: "as-fed" }, cell(where(row), name, cells[name].fed, "as fed")))))))));
}
