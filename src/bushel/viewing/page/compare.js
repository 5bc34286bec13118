// Two splits, or two datasets, side by side.

import { ask, choice, count, el, figure, go, link, plural, table, tell } from "./dom.js";
import { histogram } from "./drawing.js";

export async function compare(context) {
  const { known, params, put, stop, isCurrent } = context;
  const redraw = () => { if (isCurrent()) compare(context).catch(() => {}); };
  const sides = known.datasets.flatMap((dataset, d) => dataset.splits.map((split) => [`${d}:${split.name}`, known.datasets.length > 1 ? `${dataset.name}: ${split.name}` : split.name]));
  if (sides.length < 2) return put(el("h1", {}, "Compare"), el("p", {}, "There is one split. Open a second dataset to compare it with: bushel view ONE OTHER"));
  const one = params.split ? `${params.d || 0}:${params.split}` : sides[0][0];
  const second = params.other ? `${params.e || 0}:${params.other}` : (sides.find(([key]) => key !== one) || sides[0])[0];
  const cut = (key) => [key.slice(0, key.indexOf(":")), key.slice(key.indexOf(":") + 1)];
  const move = (left, right) => go("compare", { d: cut(left)[0], split: cut(left)[1], e: cut(right)[0], other: cut(right)[1] });
  const bar = el("form", { class: "toolbar", onsubmit: (event) => event.preventDefault() },
    choice("One", sides, one, (next) => move(next, second)), choice("Other", sides, second, (next) => move(one, next)));
  if (!document.querySelector(".shared")) put(el("h1", {}, "Compare"), bar, el("p", { class: "quiet" }, "Looking at some records…"));
  const found = await ask("compare", { d: cut(one)[0], split: cut(one)[1], e: cut(second)[0], other: cut(second)[1] }, stop);
  const names = found.sides.map((side) => (found.sides[0].dataset === found.sides[1].dataset ? side.split : `${side.dataset}: ${side.split}`));
  const totals = [1, 2].map((at) => found.classes.reduce((sum, row) => sum + row[at], 0) || 1);
  const share = (value, at) => `${count(value)} (${((100 * value) / totals[at]).toFixed(1)}%)`;
  return put(el("h1", {}, "Compare"), bar,
    el("p", { class: "quiet" }, found.sides.map((side, at) => `${names[at]}: from ${plural(side.records, "record")} of ${count(side.of)}. `)),
    shared(found.shared, cut(one), cut(second), redraw),
    found.classes.length ? [el("h2", {}, "Classes"), table(["class", ...names, "difference"], found.classes.slice(0, 200).map(([name, left, right]) => {
      const apart = (100 * right) / totals[1] - (100 * left) / totals[0];
      return [name || "(empty)", share(left, 0), share(right, 1), `${apart > 0 ? "+" : ""}${apart.toFixed(1)} points`];
    }), { label: "Classes" })] : null,
    el("h2", {}, "Features, those that differ most first"),
    table(["feature", "drift", ...names, "range"], found.features.map((feature) => [
      feature.name, el("span", { class: feature.drift > 0.1 ? "far" : "" }, feature.drift.toFixed(3)),
      ...[0, 1].map((at) => (feature.bins && feature.bins[at].length ? el("span", { class: "cell" }, histogram(feature.bins[at], `${feature.name} of ${names[at]}, mean ${figure(feature.means[at])}`, { kind: at ? "two" : "one" }), el("small", {}, `mean ${figure(feature.means[at])}`)) : `${count(feature.present[at])} records`)),
      feature.bins ? `${figure(feature.low)} to ${figure(feature.high)}${feature.kind === "values" ? "" : ` (${feature.kind})`}` : "",
    ]), { label: "Features" }),
    el("p", { class: "quiet" }, "Drift is 0 where both are distributed alike and 1 where no value is shared."));
}

function shared(found, [d, split], [e, other], redraw) {
  const start = el("button", { type: "button", onclick: async () => { await tell("shared", { d, split, e, other }); redraw(); } }, "Look for contents in both");
  if (found.state === "none") return el("p", { class: "shared" }, start);
  if (found.state === "failed") return el("p", { class: "shared problem", role: "alert" }, found.problem);
  if (found.state === "running") { setTimeout(redraw, 800); return el("p", { class: "shared", role: "status" }, `${count(found.done)} of ${count(found.of)} records compared`); }
  return el("div", { class: "shared" }, el("p", { role: "status" }, found.count ? el("strong", {}, `${plural(found.count, "content")} in both.`) : "No content is in both."),
    found.pairs.map(([left, right]) => el("p", {}, link("record", { d, split, row: left }, {}, `${split} ${count(left)}`), " is ", link("record", { d: e, split: other, row: right }, {}, `${other} ${count(right)}`))));
}
