// What is wrong: findings of a check, records that are there twice, and what a build refused.

import { ask, count, el, link, plural, table, tell } from "./dom.js";
import { distribution } from "./drawing.js";
import { rolesOf } from "./browse.js";
import { face, look, rowsOf, title } from "./tiles.js";

const LOOKED_AT = new Set(["image", "frames", "mask", "audio", "series"]);  // whose distribution says little
const SHORT = new Set(["number", "boxes"]);

/** The findings on the overview with the records that show them, filled in while the check runs. */
export async function findings({ dataset, d, roles, asked, columns, place, stop, isCurrent, onFound }) {
  let before = "";
  const show = async () => {
    const found = await ask("findings", asked, stop);
    if (!isCurrent()) return;
    if (found.state === "none" && dataset.is_small) found.state = "running";  // it begins by itself, after the first look
    const start = el("button", { type: "button", onclick: async () => { await tell("check", { d }); show(); } }, "Run the check");
    const words = {
      none: () => [el("p", { class: "quiet" }, "bushel check reads every record once."), start],
      running: () => [el("p", { role: "status" }, found.of ? `Checking: ${Math.floor((100 * found.done) / found.of)}%` : "Checking…")],
      failed: () => [el("p", { class: "problem" }, `The check could not be run: ${found.problem}`), start],
      done: () => (found.findings.length ? found.findings.map((one, at) => finding(one, at, { dataset, d, roles, columns, params: asked, form: found.form })) : [el("p", {}, "The check found nothing.")]),
    };
    const now = `${found.state} ${found.is_looking} ${found.state === "running" ? found.done : ""}`;
    if (now !== before) {  // what is being looked at stays where it is
      place.replaceChildren(el("h2", {}, `Findings${found.state === "done" ? ` (${found.findings.length})` : ""}`), ...words[found.state]());
      onFound(found);
    }
    before = now;
    if (found.state === "running" || found.is_looking) setTimeout(() => isCurrent() && show().catch(() => {}), 500);
  };
  try { await show(); } catch (error) { if (error.name !== "AbortError") place.replaceChildren(el("p", { class: "problem" }, error.message)); }
}

function finding(one, at, context) {
  const places = Object.entries(one.places);
  return el("article", { class: `finding ${one.severity}` },
    el("strong", {}, `${one.severity}: ${one.message}`),
    one.groups.filter((group) => group.length).length ? el("div", { class: "evidence" }, one.groups.map((group) => together(group, one, context))) : null,
    curves(one, context),
    one.help.map((line) => el("div", {}, line)),
    el("div", { class: "quiet" }, `${one.rule} ${one.name} (${one.confidence})${one.where.length && !one.groups.length ? `, ${one.where[0]}` : ""} `,
      places.map(([split, many]) => link("browse", { d: context.d, split, list: `finding:${at}` }, { class: "lead" }, `${plural(many, "record")} of ${split}`))));
}

/** Records that belong together, side by side: tiles, or rows where there is nothing to look at. */
function together(group, one, { dataset, d, roles, params, form }) {
  const opens = (record) => ({ d, split: record.split, row: record.row, roles: params.roles });
  if (form === "rows") return rowsOf(group, [...new Set([...one.features, dataset.label, ...Object.keys(group[0].fields)])], { d, opens, roles });
  const said = (record) => one.features.filter((name) => SHORT.has(roles[name]) && record.fields[name]).map((name) => `${name}: ${record.fields[name].text}`);
  return el("ul", { class: "samples together" }, group.map((record) => el("li", {}, face(record, {
    d, roles, opens: opens(record), caption: [title(record, roles), `${record.split} ${count(record.row)}`, ...said(record)].filter(Boolean),
  }))));
}

/** The columns that a finding is about, by split; records that are shown say all but where a number lies. */
function curves(one, { columns, roles }) {
  const isAbout = (name) => (one.groups.length ? roles[name] === "number" : !LOOKED_AT.has(roles[name]));
  const names = one.features.filter(isAbout).slice(0, 3);
  if (!names.length) return null;
  const place = el("div", { class: "curves" });
  columns.then((found) => place.append(...names.filter((name) => found.columns[name]).map((name) => {
    const { pictures, said } = distribution(found.columns[name], found.splits);
    return pictures.some(Boolean) ? el("span", { class: "cell" }, el("small", {}, name), pictures.filter(Boolean), el("small", {}, said)) : "";
  }))).catch(() => {});
  return place;
}

/** Work that a view shows: begun by itself where the data is small, else when asked for. */
async function begun(name, dataset, d, stop) {
  const found = await ask(name, { d }, stop);
  return found.state === "none" && dataset.is_small ? tell(name, { d }) : found;
}

export async function duplicates({ dataset, params, put, stop, isCurrent }) {
  const d = params.d || "0";
  const roles = rolesOf(dataset, params);
  const show = async () => {
    const found = await begun("duplicates", dataset, d, stop);
    if (!isCurrent()) return;
    const start = el("button", { type: "button", onclick: async () => { await tell("duplicates", { d }); show(); } }, "Look for duplicates");
    const head = [el("h1", {}, "Duplicates"), el("p", { class: "quiet" }, "Records with the same content, whatever their labels and keys. Those in several splits come first.")];
    if (found.state === "none") { put(...head, start); return; }
    if (found.state === "failed") { put(...head, el("p", { class: "problem", role: "alert" }, found.problem), start); return; }
    if (found.state === "running") {
      put(...head, el("p", { role: "status" }, `${count(found.done)} of ${count(found.of)} records compared`));
      setTimeout(() => isCurrent() && show().catch(() => {}), 1000);
      return;
    }
    put(...head, el("p", { role: "status" }, found.count ? `${plural(found.count, "group")}, ${plural(found.extra, "record")} more than needed.` : "There are none."),
      found.left_out.length ? el("p", { class: "quiet" }, `Compared without ${found.left_out.join(", ")}.`) : null);
    const place = document.getElementById("main");
    for (const [at, group] of found.groups.slice(0, 30).entries()) {
      const holder = el("section", { class: "group", "aria-label": `Group ${at + 1}` }, el("h2", {}, `${group.length} times the same`,
        new Set(group.map((one) => one.split)).size > 1 ? el("span", { class: "badge drop" }, "in several splits") : null));
      place.append(holder);
      holder.append(await side(d, group, roles, stop));
      if (!isCurrent()) return;
    }
  };
  return show();
}

export async function labels({ dataset, params, put, stop, isCurrent }) {
  const d = params.d || "0";
  const roles = rolesOf(dataset, params);
  const show = async () => {
    const found = await begun("suspects", dataset, d, stop);
    if (!isCurrent()) return;
    const start = el("button", { type: "button", onclick: async () => { await tell("suspects", { d }); show(); } }, "Look for suspected labels");
    const head = [el("h1", {}, "Suspected labels"), el("p", { class: "quiet" }, "Records whose nearest neighbours, by content, nearly all have one other label. Look before you relabel: classes may overlap.")];
    if (found.state === "none") { put(...head, start); return; }
    if (found.state === "failed") { put(...head, el("p", { class: "problem", role: "alert" }, found.problem), start); return; }
    if (found.state === "running") {
      put(...head, el("p", { role: "status" }, `${count(found.done)} of ${count(found.of)} records read`));
      setTimeout(() => isCurrent() && show().catch(() => {}), 1000);
      return;
    }
    put(...head,
      el("p", { role: "status" }, `${plural(found.count, "suspected label")} among ${plural(found.compared, "record")}, compared by ${found.by.join(", ")}. Neighbours agree with ${(100 * found.agreement).toFixed(0)}% of all labels.`),
      el("p", {}, Object.entries(found.splits).map(([split, many]) => link("browse", { d, split, list: "suspects" }, { class: "lead" }, `${plural(many, "record")} of ${split}`))));
    const place = document.getElementById("main");
    for (const one of found.suspects.slice(0, 30)) {
      const holder = el("section", { class: "group", "aria-label": `Record ${one.row} of ${one.split}` },
        el("h2", {}, `Labelled ${one.label}; ${one.votes} of ${one.of} neighbours are ${one.meant}`));
      place.append(holder);
      holder.append(await side(d, [one, ...one.neighbours], roles, stop));
      if (!isCurrent()) return;
    }
  };
  return show();
}

async function side(d, group, roles, stop) {
  const shown = await Promise.all(group.slice(0, 8).map((one) => ask("records", { d, split: one.split, start: one.row, count: 1 }, stop)));
  return el("ul", { class: "grid" }, shown.map((found, at) => {
    const record = found.records[0];
    const where = { d, split: group[at].split, row: group[at].row };
    return el("li", {}, link("record", where, { class: "tile" }, look(record, where, roles),
      el("span", { class: "caption" }, el("span", { class: "name" }, title(record, roles)), el("span", { class: "number" }, `${where.split} ${count(where.row)}`))));
  }));
}

export async function quarantine({ dataset, params, put, stop }) {
  const d = params.d || "0";
  const start = Number(params.start || 0);
  const found = await ask("quarantine", { d, start, count: 100 }, stop);
  put(el("h1", {}, "Quarantine"), el("p", {}, `${plural(found.total, "sample")} refused when ${dataset.name} was built.`),
    found.reasons.length ? [el("h2", {}, "Reasons"), table(["reason", "samples"], found.reasons.map(([reason, times]) => [reason, count(times)]), { label: "Reasons" })] : null,
    found.entries.length ? [el("h2", {}, "Samples"), table(["source", "reason", "stage", "key", "split"],
      found.entries.map((entry) => [entry.source || "", entry.reason || "", entry.stage || "", entry.key || "", entry.split || ""]), { label: "Refused samples" })] : null,
    el("nav", { class: "paging", "aria-label": "Pages" },
      start ? link("quarantine", { d, start: Math.max(0, start - 100) || undefined }, {}, "Previous") : null,
      start + 100 < found.total ? link("quarantine", { d, start: start + 100 }, {}, "Next") : null));
}
