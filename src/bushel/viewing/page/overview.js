// What there is: splits, features with small histograms, classes.

import { ask, choice, copyable, count, el, figure, go, link, plural, size, table } from "./dom.js";
import { bars, histogram } from "./drawing.js";
import { findings } from "./findings.js";

const ROLES = ["image", "frames", "mask", "boxes", "keypoints", "label", "text", "tokens", "audio", "series", "embedding", "array", "number", "bytes"];

export async function overview({ dataset, params, put, stop, isCurrent, refresh, keys }) {
  if (!dataset) return put(el("p", {}, "No dataset is open."));
  const d = params.d || "0";
  const parts = dataset.splits.map((split) => ({ split, numbers: el("div", { class: "numbers" }, el("p", { class: "quiet" }, "Looking at some records…")) }));
  const more = el("div", {});
  put(
    el("h1", {}, dataset.name), el("p", { class: "quiet" }, dataset.where),
    dataset.problems.map((problem) => el("div", { class: "problem", role: "alert" }, problem)),
    splits(dataset, d),
    more,
    parts.map(({ split, numbers }) => el("section", { "aria-label": split.name }, dataset.splits.length > 1 ? el("h2", {}, split.name) : null, numbers)),
    el("details", {}, el("summary", {}, "Copy as code"), copyable(dataset.code.python), copyable(dataset.code.tensorflow)),
  );
  keys({ "/": () => go("browse", { d }) });
  findings({ dataset, d, place: more, stop, isCurrent });
  for (const { split, numbers } of parts) {
    try { numbers.replaceChildren(...shown(await ask("statistics", { d, split: split.name }, stop), dataset, split, params)); }
    catch (error) { if (error.name === "AbortError") return; numbers.replaceChildren(el("p", { class: "problem" }, error.message)); }
  }
  if (dataset.splits.some((split) => !split.is_whole)) {
    setTimeout(async () => {
      if (!isCurrent()) return;
      const next = (await refresh()).datasets[Number(d)];
      if (isCurrent()) document.querySelector(".splits").replaceWith(splits(next, d));
      if (next.splits.every((split) => split.is_whole)) go("", { d, counted: "1" }, { replace: true });
    }, 1500);
  }
}

function splits(dataset, d) {
  const rows = dataset.splits.map((split) => [
    link("browse", { d, split: split.name }, {}, split.name),
    count(split.records) + (split.is_whole ? "" : " so far"), count(split.shards), size(split.bytes),
  ]);
  const waits = dataset.splits.some((split) => !split.is_whole);
  return el("div", { class: "splits" }, table(["split", "records", "shards", "bytes"], rows, { label: "Splits" }),
    waits ? el("p", { class: "quiet", role: "status" }, "Files without an index are being indexed; what is there already can be browsed.") : null);
}

function shown(found, dataset, split, params) {
  const d = params.d || "0";
  const whole = found.records + found.damaged >= found.of;
  const said = whole ? `All ${plural(found.of, "record")} were read.` : `From ${plural(found.records, "record")} of ${count(found.of)}.`;
  const total = Object.values(found.features).reduce((sum, one) => sum + one.bytes, 0) || 1;
  const classes = Object.entries(found.classes);
  const roles = Object.fromEntries((params.roles || "").split(",").filter(Boolean).map((pair) => [pair.slice(0, pair.lastIndexOf(":")), pair.slice(pair.lastIndexOf(":") + 1)]));
  const setRole = (name, role) => {
    roles[name] = role;
    go("", { ...params, roles: Object.entries(roles).map(([key, value]) => `${key}:${value}`).join(",") });
  };
  const rows = dataset.features.map((feature) => {
    const facts = found.features[feature.name] || found.features[`${feature.name}/values`];
    const role = roles[feature.name] || feature.role;
    return [
      feature.name, feature.type,
      choice(`Role of ${feature.name}`, ROLES.map((one) => [one, one]), role, (next) => setRole(feature.name, next)),
      facts ? `${((100 * facts.present) / Math.max(1, found.records)).toFixed(facts.present === found.records ? 0 : 1)}%` : "–",
      facts ? `${((100 * facts.bytes) / total).toFixed(1)}%` : "–",
      facts ? distribution(dataset, feature, facts) : "–",
    ];
  });
  return [
    el("p", { class: "quiet" }, said, whole ? null : " ", whole ? null : readAll(d, split), found.damaged ? el("strong", {}, ` ${plural(found.damaged, "damaged record")}.`) : null),
    classes.length ? el("section", { "aria-label": `Classes of ${split.name}` }, el("h3", {}, `Classes (${classes.length})`),
      bars(classes, classes.reduce((sum, [, value]) => sum + value, 0), {
        onto: (name) => link("browse", { d, split: split.name, where: condition(dataset, name) }, {}, name),
      })) : null,
    rows.length ? table(["feature", "type", "role", "present", "of the bytes", "values"], rows, { label: `Features of ${split.name}` }) : null,
  ].filter(Boolean);
}

function readAll(d, split) {
  const button = el("button", { type: "button", onclick: async () => {
    button.disabled = true;
    button.textContent = "Reading all records…";
    await ask("statistics", { d, split: split.name, all: "1" });
    go("", { d, all: "1" }, { replace: true });
  } }, "Read all records");
  return button;
}

export function condition(dataset, name) {
  const quoted = /^-?\d+$/.test(name) && !dataset.classes.length ? name : `'${name.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  return `\`${dataset.label}\` == ${quoted}`;
}

function distribution(dataset, feature, facts) {
  const range = (one) => `${figure(one.low)} to ${figure(one.high)}, mean ${figure(one.mean)}`;
  if (facts.widths.count) {
    const said = `${figure(facts.widths.low)} to ${figure(facts.widths.high)} wide, ${figure(facts.heights.low)} to ${figure(facts.heights.high)} high`;
    return el("span", { class: "cell" }, histogram(facts.widths.bins, `Widths: ${said}`), el("small", {}, said));
  }
  if (facts.top.length && facts.distinct <= 12 && facts.is_open) {
    const said = facts.top.slice(0, 4).map(([value, times]) => [feature.role === "label" && dataset.classes[Number(value)] || value, times]).map(([value, times]) => `${value || "(empty)"}: ${count(times)}`).join(", ");
    return el("span", { class: "cell" }, histogram(facts.top.map(([, times]) => times), said), el("small", {}, said));
  }
  if (facts.texts) return el("span", { class: "cell" }, histogram(facts.top.map(([, times]) => times), facts.texts), el("small", {}, facts.texts));
  if (facts.values.count) return el("span", { class: "cell" }, histogram(facts.values.bins, range(facts.values)), el("small", {}, range(facts.values), facts.values.odd ? `, ${count(facts.values.odd)} not finite` : ""));
  if (facts.lengths.count) {
    const said = `${figure(facts.lengths.low)} to ${figure(facts.lengths.high)} bytes`;
    return el("span", { class: "cell" }, histogram(facts.lengths.bins, said), el("small", {}, said));
  }
  return el("small", {}, "nothing");
}
