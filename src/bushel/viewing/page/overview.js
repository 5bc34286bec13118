// What there is, at first sight: one sentence, some records of each class, and each column in all splits.

import { ask, choice, copyable, count, el, figure, go, link, plural, size, table } from "./dom.js";
import { distribution, legend } from "./drawing.js";
import { findings } from "./findings.js";
import { rolesOf } from "./browse.js";
import { face, rowsOf } from "./tiles.js";

const ROLES = ["image", "frames", "mask", "boxes", "keypoints", "label", "text", "tokens", "audio", "series", "embedding", "array", "number", "bytes"];
const NOUNS = [["image", "image"], ["frames", "clip"], ["audio", "sound"], ["series", "series"], ["text", "text"], ["tokens", "text"]];
const MOST_COLUMNS = 200;
const MOST_SPLITS = 6;
const OF_CLASS_AS_ROWS = 2;
const FEW_CLASSES = 4;  // each of which may have two lines of records

export async function overview({ dataset, params, put, stop, isCurrent, refresh, keys }) {
  if (!dataset) return put(el("p", {}, "No dataset is open."));
  const d = params.d || "0";
  const roles = rolesOf(dataset, params);
  const asked = { d, roles: params.roles };
  const [lede, samples, wrong, columnPlace] = [el("p", { class: "lede", role: "status" }), ...["Records", "Findings", "Columns"].map((label) => el("section", { "aria-label": label }))];
  const about = { dataset, roles };
  const tellAbout = (more) => { Object.assign(about, more); lede.replaceChildren(sentence(about)); };
  tellAbout({});
  put(
    el("h1", {}, dataset.name), lede,
    dataset.problems.map((problem) => el("div", { class: "problem", role: "alert" }, problem)),
    splits(dataset, d),
    el("div", { class: "desk" }, samples, wrong, columnPlace),
    el("details", {}, el("summary", {}, "Copy as code"), copyable(dataset.code.python), copyable(dataset.code.tensorflow)),
  );
  keys({ "/": () => go("browse", { d }) });
  // Pictures come first: nothing else is asked for before the records are there.
  const first = ask("samples", asked, stop);
  const columns = first.catch(() => {}).then(() => ask("columns", { d }, stop));
  const fill = async (place, found, draw) => {
    try { const known = await found; if (isCurrent()) place.replaceChildren(...draw(known).filter(Boolean)); }
    catch (error) { if (error.name !== "AbortError") place.replaceChildren(el("p", { class: "problem" }, error.message)); }
  };
  const drawn = fill(samples, first, (found) => {
    tellAbout({ face: found });
    return strips(found, { dataset, d, roles, params });
  });
  const counted = drawn.then(() => fill(columnPlace, columns, (found) => {
    tellAbout({ columns: found });
    fillShares(samples, found, dataset, d);
    return columnTable(found, dataset, params);
  }));
  drawn.then(() => findings({ dataset, d, roles, asked, columns, place: wrong, stop, isCurrent, onFound: (found) => tellAbout({ found }) }));
  waitForCounts({ dataset, d, refresh, isCurrent });
  return counted;
}

/** Files without an index are counted in the background; when all are, the page is drawn again. */
function waitForCounts({ dataset, d, refresh, isCurrent }) {
  if (dataset.splits.every((split) => split.is_whole)) return;
  setTimeout(async () => {
    if (!isCurrent()) return;
    const next = (await refresh()).datasets[Number(d)];
    if (!isCurrent()) return;
    document.querySelector(".splits").replaceWith(splits(next, d));
    if (next.splits.every((split) => split.is_whole)) go("", { d, counted: "1" }, { replace: true });
    else waitForCounts({ dataset: next, d, refresh, isCurrent });
  }, 1500);
}

/** What this is, as far as it is known yet. */
function sentence({ dataset, roles, face, columns, found }) {
  const total = dataset.splits.reduce((sum, split) => sum + split.records, 0);
  const bytes = dataset.splits.reduce((sum, split) => sum + split.bytes, 0);
  const noun = (NOUNS.find(([role]) => face && face.form === "tiles" && roles[face.names[0]] === role) || [null, "record"])[1];
  const classes = dataset.classes.length || (columns ? classNames(columns.splits).length : 0);
  const said = [
    noun === "series" ? `${count(total)} series` : plural(total, noun), columns ? pixels(columns, roles) : null,
    classes ? `${count(classes)} class${classes === 1 ? "" : "es"}` : null,
    noun === "record" && dataset.features.length ? plural(dataset.features.length, "column") : null,
    plural(dataset.splits.length, "split"), size(bytes),
  ].filter(Boolean).join(", ");
  const so = dataset.splits.some((split) => !split.is_whole) ? " so far" : "";
  return `${said}${so}${verdict(found)}`;
}

function verdict(found) {
  if (!found || found.state === "none") return found ? "; not checked yet" : "";
  if (found.state !== "done") return found.state === "running" ? "; being checked" : "; the check failed";
  const many = (severity) => found.findings.filter((one) => one.severity === severity).length;
  const words = [["error", "error"], ["warning", "warning"], ["info", "note"]].map(([key, word]) => many(key) && plural(many(key), word)).filter(Boolean);
  return `; ${words.join(", ") || "the check found nothing"}`;
}

function pixels(columns, roles) {
  const image = Object.values(columns.columns).find((one) => one.heights && roles[one.name] === "image");
  if (!image) return null;
  const range = (low, high) => (low === high ? figure(low) : `${figure(low)} to ${figure(high)}`);
  return `${range(image.low, image.high)} × ${range(...image.heights)}`;
}

function splits(dataset, d) {
  const waits = dataset.splits.some((split) => !split.is_whole);
  return el("div", { class: "splits" }, el("ul", { class: "chips", "aria-label": "Splits" }, dataset.splits.map((split, at) => el("li", { class: `key key${at}` },
    link("browse", { d, split: split.name }, {}, split.name),
    el("small", {}, ` ${plural(split.records, "record")}${split.is_whole ? "" : " so far"}, ${plural(split.shards, "shard")}, ${size(split.bytes)}`)))),
    waits ? el("p", { class: "quiet", role: "status" }, "Files without an index are being indexed; what is there already can be browsed.") : null);
}

const classNames = (found) => [...new Set(found.flatMap((split) => Object.keys(split.classes)))];

/** Some records of each class beside its share of each split; rows of a table are below the shares. */
function strips(found, { dataset, d, roles, params }) {
  const opens = (record) => ({ d, split: record.split, row: record.row, roles: params.roles });
  const all = found.strips.flatMap((strip) => strip.records);
  if (!all.length) return [el("p", {}, dataset.splits.every((split) => split.is_whole) ? "There are no records." : "No record is indexed yet.")];
  const asRows = found.form === "rows";
  const isNamed = found.classes > 0;
  const tiles = (strip) => el("ul", { class: "samples" }, strip.records.map((record) => el("li", {}, face(record, { d, roles, opens: opens(record) }))));
  const names = isNamed ? [dataset.label, ...found.names] : found.names;
  const rows = found.strips.flatMap((strip) => (isNamed ? strip.records.slice(0, OF_CLASS_AS_ROWS) : strip.records));
  return [
    el("h2", {}, isNamed ? `Classes (${count(found.classes)})` : "Records"),
    isNamed ? el("ul", { class: `kinds${asRows ? " narrow" : found.classes <= FEW_CLASSES ? " roomy" : ""}` }, found.strips.map((strip) => el("li", { "data-class": strip.name },
      el("div", { class: "about" }, link("browse", { d, where: condition(dataset, strip.name) }, { class: "name" }, strip.name || "(empty)"), el("div", { class: "shares" })),
      asRows ? null : tiles(strip)))) : asRows ? null : tiles(found.strips[0]),
    isNamed ? el("div", { class: "rest" }) : null,
    asRows ? rowsOf(rows, names, { d, opens, roles }) : null,
  ];
}

/** The bars of each class: its share of each split, in the splits' colours. */
function fillShares(place, { splits: found }, dataset, d) {
  const totals = found.map((split) => Object.values(split.classes).reduce((sum, value) => sum + value, 0) || 1);
  const share = (name, at) => (found[at].classes[name] || 0) / totals[at];
  const names = classNames(found);
  const most = Math.max(...names.flatMap((name) => found.map((_, at) => share(name, at))), 1e-9);
  const bars = (name) => found.slice(0, MOST_SPLITS).map((split, at) => el("div", { class: `share key${at}` },
    el("span", { class: "bar", "aria-hidden": "true" }, el("i", { style: { width: `${(100 * share(name, at)) / most}%` } })),
    el("span", { class: "figure" }, el("span", { class: "hidden" }, `${split.name}: `), `${count(split.classes[name] || 0)} (${(100 * share(name, at)).toFixed(1)}%)`)));
  const shown = new Set();
  for (const row of place.querySelectorAll("[data-class]")) {
    shown.add(row.dataset.class);
    row.querySelector(".shares").replaceChildren(...bars(row.dataset.class));
  }
  const left = names.filter((name) => !shown.has(name));
  const rest = place.querySelector(".rest");
  if (!rest || !left.length) return;
  const heading = place.querySelector("h2");
  heading.textContent = `Classes (${count(names.length)})`;
  rest.replaceChildren(el("details", {}, el("summary", {}, `${count(left.length)} more class${left.length === 1 ? "" : "es"}`),
    el("ul", { class: "kinds narrow" }, left.slice(0, 500).map((name) => el("li", {}, el("div", { class: "about" },
      link("browse", { d, where: condition(dataset, name) }, { class: "name" }, name || "(empty)"), el("div", { class: "shares" }, bars(name))))))));
}

function columnTable(found, dataset, params) {
  const d = params.d || "0";
  const known = found.splits.slice(0, MOST_SPLITS);
  const roles = rolesOf(dataset, params);
  const given = Object.fromEntries((params.roles || "").split(",").filter(Boolean).map((pair) => [pair.slice(0, pair.lastIndexOf(":")), pair.slice(pair.lastIndexOf(":") + 1)]));
  const setRole = (name, role) => go("", { ...params, roles: Object.entries({ ...given, [name]: role }).map(([key, value]) => `${key}:${value}`).join(",") });
  const row = (feature) => {
    const column = found.columns[feature.name] || found.columns[`${feature.name}/values`];
    const drawn = column ? distribution(column, found.splits) : null;
    return [
      [feature.name, el("small", { class: "type" }, feature.type)],
      choice(`Role of ${feature.name}`, ROLES.map((one) => [one, one]), roles[feature.name], (next) => setRole(feature.name, next)),
      ...known.map((_, at) => (drawn && drawn.pictures[at]) || "–"),
      el("small", {}, drawn ? drawn.said : "nothing"),
    ];
  };
  const head = ["column", "role", ...known.map((split) => split.name), "values"];
  const draw = (most) => table(head, dataset.features.slice(0, most).map(row), { label: "Columns by split" });
  const place = el("div", {}, draw(MOST_COLUMNS));
  const more = dataset.features.length - MOST_COLUMNS;
  return [
    el("h2", {}, `Columns (${count(dataset.features.length)})`), readFrom(found, d),
    dataset.features.length ? place : null,
    more > 0 ? el("button", { type: "button", onclick: (event) => { place.replaceChildren(draw(undefined)); event.target.remove(); } }, `Show ${plural(more, "more column")}`) : null,
    found.splits.length > 1 ? legend(known.map((split) => split.name)) : null,
  ];
}

/** From how many records the figures are; and the way to read all. */
function readFrom(found, d) {
  const [read, of, damaged] = ["records", "of", "damaged"].map((key) => found.splits.reduce((sum, split) => sum + split[key], 0));
  const whole = read + damaged >= of;
  const button = el("button", { type: "button", onclick: async () => {
    button.disabled = true;
    button.textContent = "Reading all records…";
    for (const split of found.splits) await ask("statistics", { d, split: split.name, all: "1" });
    go("", { d, all: "1" }, { replace: true });
  } }, "Read all records");
  return el("p", { class: "quiet" }, whole ? `All ${plural(of, "record")} were read.` : `From ${plural(read, "record")} of ${count(of)}. `,
    whole ? null : button, damaged ? el("strong", {}, ` ${plural(damaged, "damaged record")}.`) : null);
}

export function condition(dataset, name) {
  const quoted = /^-?\d+$/.test(name) && !dataset.classes.length ? name : `'${name.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  return `\`${dataset.label}\` == ${quoted}`;
}
