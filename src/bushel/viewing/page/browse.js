// Records as a grid or a table, a page at a time; what is looked for is in the address.

import { ask, choice, count, el, go, link, plural, size } from "./dom.js";
import { value } from "./drawing.js";
import { badge, marking } from "./marks.js";
import { condition } from "./overview.js";
import { look, named, title } from "./tiles.js";

const PAGES = { grid: 60, table: 30 };
const LISTS = { finding: "of a finding", duplicates: "duplicates", suspects: "suspected labels", marked: "marked", run: "that judged a run" };

export async function browse(context) {
  const { dataset, params, put, stop, isCurrent, keys, known } = context;
  if (!dataset) return put(el("p", {}, "No dataset is open."));
  const d = params.d || "0";
  const split = params.split || dataset.splits[0].name;
  const roles = rolesOf(dataset, params);
  const images = named(roles, "image").length || named(roles, "frames").length;
  const form = params.view || (images ? "grid" : "table");
  const start = Number(params.start || 0);
  const move = (changed) => go("browse", { ...params, split, start: undefined, ...changed });
  const bar = toolbar(dataset, params, split, form, move);
  const place = el("div", { class: "found" }, el("p", { class: "quiet" }, "Loading…"));
  const drawn = put(el("h1", { class: "hidden" }, `Records of ${split}`), bar, place);
  if (!drawn) return undefined;
  keys({
    "/": () => bar.querySelector("input[type=search]").focus(),
    g: () => move({ view: form === "grid" ? "table" : "grid", start: params.start }),
  });

  const asked = {
    d, split, start, count: PAGES[form], where: params.where, text: params.text, sort: params.sort,
    desc: params.desc, list: params.list, roles: params.roles, run: params.run,
  };
  const fill = async () => {
    let found;
    try { found = await ask("records", asked, stop); } catch (error) {
      if (error.name !== "AbortError" && isCurrent()) place.replaceChildren(el("pre", { class: "problem", role: "alert" }, error.message));
      return;
    }
    if (!isCurrent()) return;
    const opens = (record) => ({ d, split, row: record.row, roles: params.roles, from: location.search.slice(1) });
    const page = (number) => go("browse", { ...params, split, start: number || undefined });
    const tiles = found.records.map((record) => ({ record, where: { d, split, row: record.row }, opens: opens(record) }));
    const list = form === "grid" ? grid(tiles, roles) : rows(tiles, roles, dataset);
    place.replaceChildren(
      ...[status(found, params, move),
        found.problem ? el("pre", { class: "problem", role: "alert" }, found.problem) : null,
        found.records.length ? list : el("p", {}, found.is_done ? "No record matches." : "Nothing yet."),
        paging(found, start, PAGES[form], page)].filter(Boolean));
    const places = [...place.querySelectorAll("[data-row]")];
    keys(arrows(places, form));
    keys(marking({ known, d, split, places, dataset, isCurrent }));
    keys({
      n: () => start + PAGES[form] < found.total && page(start + PAGES[form]),
      p: () => start > 0 && page(Math.max(0, start - PAGES[form])),
    });
    if (!found.is_done || !found.is_whole) setTimeout(() => isCurrent() && fill().catch(() => {}), 1200);
  };
  return fill();
}

export function rolesOf(dataset, params) {
  const roles = Object.fromEntries(dataset.features.map((feature) => [feature.name, feature.role]));
  for (const pair of (params.roles || "").split(",")) {
    const at = pair.lastIndexOf(":");
    if (at > 0 && pair.slice(0, at) in roles) roles[pair.slice(0, at)] = pair.slice(at + 1);
  }
  return roles;
}

function toolbar(dataset, params, split, form, move) {
  const features = dataset.features.map((feature) => feature.name);
  const sorts = [["", "as stored"], ["size", "size of the record"], ["brightness", "brightness"],
    ...features.map((name) => [name, name]), ...features.map((name) => [`length(${name})`, `length of ${name}`])];
  const submit = (name) => (event) => { if (event.key === "Enter") { event.preventDefault(); move({ [name]: event.target.value.trim() }); } };
  const input = (name, type, label, hint) => el("label", { class: "field" }, el("span", {}, label),
    el("input", { type, name, value: params[name] || "", placeholder: hint, onkeydown: submit(name), onchange: (event) => { if (event.target.value.trim() !== (params[name] || "")) move({ [name]: event.target.value.trim() }); }, spellcheck: "false", autocomplete: "off" }));
  const optional = dataset.features.filter((feature) => !feature.required).map((feature) => feature.name);
  return el("form", { class: "toolbar", role: "search", "aria-label": "Find records", onsubmit: (event) => event.preventDefault() },
    choice("Split", dataset.splits.map((one) => [one.name, `${one.name} (${count(one.records)})`]), split, (next) => move({ split: next })),
    dataset.classes.length ? choice("Class", [["", "any"], ...dataset.classes.map((name) => [condition(dataset, name), name])], params.where || "", (next) => move({ where: next })) : null,
    optional.length ? choice("Missing", [["", "any"], ...optional.map((name) => [`\`${name}\` is missing`, name])], params.where || "", (next) => move({ where: next })) : null,
    input("text", "search", "Text", "search texts ( / )"),
    input("where", "text", "Condition", "width >= 64 and label == 'cat'"),
    choice("Order", sorts, params.sort || "", (next) => move({ sort: next })),
    el("label", { class: "field check" }, el("input", { type: "checkbox", checked: params.desc === "1", onchange: (event) => move({ desc: event.target.checked ? "1" : "" }) }), el("span", {}, "descending")),
    el("div", { class: "buttons", role: "group", "aria-label": "Form" }, ["grid", "table"].map((one) =>
      el("button", { type: "button", "aria-pressed": String(one === form), onclick: () => move({ view: one, start: params.start }) }, one))));
}

function status(found, params, move) {
  const asked = params.where || params.text || params.list;
  const words = asked || params.sort
    ? `${plural(found.total, "record")}${found.is_done ? "" : ` so far, ${count(found.seen)} of ${count(found.of)} read`}`
    : `${plural(found.total, "record")}${found.is_whole ? "" : " so far"}`;
  return el("p", { class: "status", role: "status" }, words, found.note ? ` ${found.note}` : "",
    params.list ? el("span", { class: "tag" }, LISTS[params.list.split(":")[0]] || params.list) : null,
    asked ? el("button", { type: "button", onclick: () => move({ where: "", text: "", list: "" }) }, "Clear the filter") : null);
}

function paging(found, start, step, page) {
  const last = Math.max(0, Math.floor((found.total - 1) / step) * step);
  const button = (text, to, off) => el("button", { type: "button", disabled: off, onclick: () => page(to) }, text);
  const goto = el("input", { type: "number", min: "0", max: String(Math.max(0, found.total - 1)), placeholder: String(start), "aria-label": "Go to record" });
  goto.addEventListener("keydown", (event) => { if (event.key === "Enter" && goto.value !== "") { event.preventDefault(); page(Math.min(found.total - 1, Math.max(0, Number(goto.value)))); } });
  return el("nav", { class: "paging", "aria-label": "Pages" },
    button("First", 0, start === 0), button("Previous", Math.max(0, start - step), start === 0),
    el("span", {}, found.total ? `${count(start)} to ${count(Math.min(found.total, start + step) - 1)} of ${count(found.total)}` : ""),
    button("Next", start + step, start + step >= found.total), button("Last", last, start >= last),
    el("label", { class: "field" }, el("span", {}, "Go to"), goto));
}

function grid(tiles, roles) {
  return el("ul", { class: "grid" }, tiles.map(({ record, where, opens }) => {
    const name = title(record, roles);
    return el("li", {}, link("record", opens, { class: "tile", "data-row": record.row, "aria-label": `Record ${record.row}${name ? `, ${name}` : ""}${record.problem ? `, ${record.problem}` : ""}` },
      look(record, where, roles),
      el("span", { class: "caption" }, el("span", { class: "name" }, name), el("span", { class: "number" }, count(record.row))),
      predicted(record), badge(record.mark)));
  }));
}

/** What the run that the address names said of a record. */
function predicted(record) {
  const said = record.predicted;
  if (!said) return null;
  const wrong = said.predicted !== said.label;
  const sure = said.probability === undefined ? "" : ` ${(100 * said.probability).toFixed(0)}%`;
  return el("span", { class: "caption said" }, said.predicted === undefined ? "" : el("span", { class: wrong ? "far" : "good" }, `${typeof said.predicted === "number" ? said.predicted.toPrecision(4) : said.predicted}${sure}`), el("span", { class: "number" }, `loss ${said.loss.toPrecision(3)}`));
}

function rows(tiles, roles, dataset) {
  const names = [...new Set([...dataset.features.map((feature) => feature.name), ...tiles.flatMap(({ record }) => Object.keys(record.fields))])];
  const shown = names.filter((name) => tiles.some(({ record }) => record.fields[name]));
  const masks = named(roles, "mask");
  return el("div", { class: "scroll", tabindex: "-1", role: "region", "aria-label": "Records" }, el("table", { class: "records" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "record"), shown.map((name) => el("th", { scope: "col" }, name)), el("th", { scope: "col" }, "bytes"))),
    el("tbody", {}, tiles.map(({ record, where, opens }) => el("tr", {},
      el("th", { scope: "row" }, link("record", opens, { "data-row": record.row, "aria-label": `Record ${record.row}` }, count(record.row), badge(record.mark)), predicted(record)),
      record.problem ? el("td", { colspan: Math.max(1, shown.length), class: "broken" }, record.problem) : shown.map((name) =>
        el("td", {}, record.fields[name] ? value(where, name, record.fields[name], record, { side: 112, masks: roles[name] === "image" ? masks.filter((mask) => record.fields[mask]) : [] }) : el("span", { class: "quiet" }, "missing"))),
      !record.problem && !shown.length ? el("td", {}, el("code", { class: "bytes" }, record.preview)) : null,
      el("td", { class: "figure" }, size(record.bytes)))))));
}

/** Arrows move between records: by columns in a grid, by rows in a table. */
function arrows(places, form) {
  const across = () => {
    if (form === "table" || places.length < 2) return 1;
    const top = places[0].getBoundingClientRect().top;
    const next = places.findIndex((place) => place.getBoundingClientRect().top > top + 4);
    return next > 0 ? next : places.length;
  };
  const step = (by) => () => {
    if (!places.length) return false;
    const at = places.indexOf(document.activeElement);
    places[at < 0 ? 0 : Math.min(places.length - 1, Math.max(0, at + by()))].focus();
    return true;
  };
  return { ArrowRight: step(() => 1), ArrowLeft: step(() => -1), ArrowDown: step(across), ArrowUp: step(() => -across()) };
}
