// Runs of bushel train: several compared, and the records that judged one.

import { ask, count, el, figure, link, plural, table } from "./dom.js";

const WIDE = 420;
const HIGH = 180;

export async function runs({ put, stop }) {
  const found = await ask("runs", {}, stop);
  const metrics = [...new Set(found.runs.flatMap((run) => Object.entries(run.metrics).flatMap(([split, values]) => Object.keys(values).map((name) => `${split} ${name}`))))];
  const curves = [...new Set(found.runs.flatMap((run) => run.history.flatMap((row) => Object.keys(row))))].filter((name) => !["epoch", "step"].includes(name));
  const names = found.runs.map((run) => run.name);
  put(el("h1", {}, plural(found.runs.length, "run")),
    table(["run", "verdict", "task", "data"], found.runs.map((run, at) => [
      link("run", { run: at }, {}, run.name), el("span", { class: run.learned ? "good" : "far" }, run.summary), `${run.task.replace("_", "-")} of ${run.label}`, run.data.join(", ")]), { label: "Runs" }),
    el("h2", {}, "Metrics"),
    table(["metric", ...names], metrics.map((name) => [name, ...found.runs.map((run) => {
      const at = name.indexOf(" ");
      return figure((run.metrics[name.slice(0, at)] || {})[name.slice(at + 1)]);
    })]), { label: "Metrics" }),
    found.runs.length > 1 ? [el("h2", {}, "Options that differ"), Object.keys(found.options).length ? table(["option", ...names],
      Object.entries(found.options).map(([name, values]) => [name, ...values.map((value) => JSON.stringify(value))]), { label: "Options" }) : el("p", {}, "All options are the same.")] : null,
    el("h2", {}, "Curves"),
    el("div", { class: "charts" }, curves.map((name) => curve(name, found.runs))));
}

/** One value over epochs, a line for each run. */
function curve(name, list) {
  const series = list.map((run) => run.history.map((row) => row[name])).map((values) => values.map((value) => (typeof value === "number" ? value : null)));
  const all = series.flat().filter((value) => value !== null);
  if (!all.length) return null;
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const longest = Math.max(...series.map((values) => values.length), 2);
  const words = name.replaceAll("_", " ");
  const said = `${words} by epoch: ${list.map((run, at) => `${run.name} ends at ${figure(series[at].filter((value) => value !== null).at(-1))}`).join(", ")}`;
  return el("figure", { class: "plot chart" }, el("figcaption", {}, words),
    el("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": said }, el("title", {}, said),
      el("text", { x: 4, y: 12, class: "tick" }, figure(high)), el("text", { x: 4, y: HIGH - 4, class: "tick" }, figure(low)),
      series.map((values, at) => {
        let path = "";
        let pen = "M";
        values.forEach((value, x) => {
          if (value === null) { pen = "M"; return; }
          path += `${pen}${(40 + ((WIDE - 48) * x) / (longest - 1)).toFixed(1)} ${(HIGH - 8 - ((HIGH - 16) * (value - low)) / (high - low || 1)).toFixed(1)}`;
          pen = "L";
        });
        return el("path", { d: path, class: `line line${at % 4}` });
      })),
    list.length > 1 ? el("p", { class: "legend" }, list.map((run, at) => el("span", { class: `key key${at % 4}` }, run.name))) : null);
}

export async function run({ params, put, stop }) {
  const number = params.run || "0";
  const found = await ask("run", { run: number }, stop);
  const [place] = found.places;
  const list = (rest) => ({ d: place.d, split: place.split, list: `run:${number}${rest}`, run: number });
  put(el("h1", {}, found.name), el("p", { class: found.learned ? "good" : "far" }, found.summary), el("p", { class: "quiet" }, found.folder),
    place ? el("p", {}, link("browse", list(""), { class: "lead" }, `${plural(found.judged, "record")} of ${place.split}, the largest loss first`), " ",
      found.confusion.length ? link("browse", list(":0"), { class: "lead" }, "Only the mistakes") : null)
      : el("p", { class: "quiet" }, found.has_predictions ? "Open the data of this run too, to see its records." : "This run has no predictions: it is not finished, or an older bushel made it."),
    found.confusion.length ? [el("h2", {}, "Confusion"), el("p", { class: "quiet" }, "Rows: the label. Columns: the prediction. Each cell leads to its records."), confusion(found, place, list)] : null,
    el("h2", {}, "Findings"),
    found.findings.length ? found.findings.map((one) => el("article", { class: `finding ${one.severity}` }, el("strong", {}, `${one.severity}: ${one.message}`), (one.help || []).map((line) => el("div", {}, line)))) : el("p", {}, "None."),
    el("h2", {}, "Curves"),
    el("div", { class: "charts" }, [...new Set(found.history.flatMap((row) => Object.keys(row)))].filter((name) => !["epoch", "step"].includes(name)).map((name) => curve(name, [found]))),
    el("h2", {}, "Options"), table(["option", "value"], Object.entries(found.options).filter(([, value]) => value !== null).map(([name, value]) => [name, JSON.stringify(value)]), { label: "Options" }));
}

function confusion(found, place, list) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Confusion" }, el("table", { class: "confusion" },
    el("thead", {}, el("tr", {}, el("td", {}), found.classes.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, found.confusion.map((row, label) => {
      const total = row.reduce((sum, value) => sum + value, 0) || 1;
      return el("tr", {}, el("th", { scope: "row" }, found.classes[label]), row.map((value, taken) =>
        el("td", { class: label === taken ? "right" : "wrong", style: { "--share": value / total } },
          value && place ? link("browse", list(`:${label}:${taken}`), { "aria-label": `${value} of ${found.classes[label]} taken for ${found.classes[taken]}` }, count(value)) : (value ? count(value) : ""))));
    }))));
}
