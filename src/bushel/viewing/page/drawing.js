// What values look like: pictures with boxes and masks, lines, heat maps, histograms.

import { address, count, el, figure, plural, say } from "./dom.js";

const WIDE = 240;
const HIGH = 72;

/** Bars of shares; `said` is the text for those who do not see them. */
export function histogram(bins, said, { wide = 120, high = 28, kind = "one" } = {}) {
  if (bins.length < 2) return null;  // all values are the same
  const most = Math.max(...bins, 1e-9);
  const step = wide / bins.length;
  return el("svg", { viewBox: `0 0 ${wide} ${high}`, class: `histogram ${kind}`, role: "img", "aria-label": said },
    el("title", {}, said),
    bins.map((share, at) => el("rect", {
      x: (at * step).toFixed(2), y: (high - (high * share) / most).toFixed(2),
      width: Math.max(0.5, step - 0.5).toFixed(2), height: ((high * share) / most).toFixed(2),
    })));
}

/** One column in all splits: a small picture of each, in the same steps, and what they have in common in words. */
export function distribution(column, splits) {
  const name = (at) => `${column.name} of ${splits[at].name}`;
  const pictures = (column.bins || []).map((bins, at) => {
    const mean = column.means && column.kind !== "counts" ? `, mean ${figure(column.means[at])}` : "";
    return bins.length > 1 ? histogram(bins, name(at) + mean, { wide: 90, kind: `key${at}` }) : null;
  });
  const [have, of] = [column.present.reduce((sum, one) => sum + one, 0), splits.reduce((sum, split) => sum + split.records, 0)];
  const missing = have < of ? `, missing in ${((100 * (of - have)) / of).toFixed(1)}%` : "";
  return { pictures, said: `${inWords(column)}${missing}${column.odd ? `, ${count(column.odd)} not finite` : ""}` };
}

function inWords(column) {
  const range = column.low === column.high ? figure(column.low) : `${figure(column.low)} to ${figure(column.high)}`;
  if (column.kind === "counts") {
    const values = column.values.slice(0, 4).map((value) => value || "(empty)").join(", ");
    const more = column.values.length - 4 + column.others;
    return more > 0 ? `${values} and ${count(more)} more` : values;
  }
  if (column.kind === "texts") return column.said;
  if (column.kind === "widths") return `${range} wide, ${[...new Set(column.heights.map(figure))].join(" to ")} high`;
  if (column.kind === "values") return range;
  return column.kind ? `${range} bytes` : "nothing";
}

/** Which colour is which split. */
export const legend = (names) => el("p", { class: "legend" }, names.map((name, at) => el("span", { class: `key key${at}` }, name)));

/** A series, or the wave of a sound. */
export function lines(shown) {
  const span = shown.high - shown.low || 1;
  const paths = shown.lines.map((points, at) => {
    const step = WIDE / Math.max(1, points.length - 1);
    let path = "";
    let pen = "M";
    points.forEach((value, x) => {
      if (value === null) { pen = "M"; return; }
      path += `${pen}${(x * step).toFixed(1)} ${(HIGH - 4 - ((HIGH - 8) * (value - shown.low)) / span).toFixed(1)}`;
      pen = "L";
    });
    return el("path", { d: path, class: `line line${at}` });
  });
  const said = `${plural(shown.steps, "step")} from ${figure(shown.low)} to ${figure(shown.high)}`;
  return el("figure", { class: "plot" },
    el("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": said }, el("title", {}, said), paths),
    el("figcaption", {}, said));
}

function heat(shown) {
  const [rows, columns] = [shown.cells.length, shown.cells[0].length];
  const said = `${shown.shape.join(" × ")} values from ${figure(shown.low)} to ${figure(shown.high)}`;
  const canvas = el("canvas", { width: columns, height: rows, class: "heat", role: "img", "aria-label": said, style: { width: `min(100%, ${24 * columns}px)` } });
  const pixels = canvas.getContext("2d");
  const image = pixels.createImageData(columns, rows);
  shown.cells.flat().forEach((value, at) => {
    const share = value / 255;
    image.data.set([Math.round(68 + 185 * share), Math.round(1 + 230 * share), Math.round(84 + 60 * Math.sin(3.1 * share) - 50 * share), 255], 4 * at);
  });
  pixels.putImageData(image, 0, 0);
  return el("figure", { class: "plot" }, canvas, el("figcaption", {}, said));
}

const AT_ONCE = 100;  // pictures of one request
const waiting = new WeakMap();  // what to ask for, of pictures that are not in sight yet
const inSight = new IntersectionObserver((entries) => {
  const wanted = new Map();  // by all that they share but the record
  for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
    inSight.unobserve(target);
    const { source, place } = waiting.get(target);
    wanted.set(source, [...(wanted.get(source) || []), place]);
  }
  for (const [source, places] of wanted) {
    for (let at = 0; at < places.length; at += AT_ONCE) fill(source, places.slice(at, at + AT_ONCE));
  }
}, { rootMargin: "300px" });

/** One picture of a record, asked for when it comes near. Those that do so together come in one request; if the server
    refuses one, its tile says why. */
function picture({ row, ...where }, name, role, { alt, ...given }) {
  const image = el("img", { alt: alt || name, decoding: "async", class: role });
  const source = address("api/pictures", { ...where, feature: name, role, ...given });
  waiting.set(image, { source, place: { row, refuse: (why) => refuse(image, name, role, why), image } });
  inSight.observe(image);
  return image;
}

function refuse(image, name, role, why) {
  const tile = el("span", { class: "broken", role: "img", "aria-label": `${name}: ${why}` }, why);
  const layers = image.closest(".layers");
  if (layers && layers.firstChild === image) layers.replaceWith(tile); else image.replaceWith(tile);
}

/** Ask for pictures, and show each when it comes. */
async function fill(source, places) {
  const stop = new AbortController();
  const left = new Set(places);
  const show = (line) => {
    const { row, picture: shown, error } = JSON.parse(line);
    for (const place of [...left].filter((one) => one.row === row)) {
      left.delete(place);
      if (error) place.refuse(error); else place.image.src = shown;
    }
  };
  try {
    const answer = await fetch(`${source}&rows=${[...new Set(places.map(({ row }) => row))].join(",")}`, { signal: stop.signal });
    if (!answer.ok) throw new Error((await answer.json()).error);
    const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let piece = await pieces.read(); !piece.done; piece = await pieces.read()) {
      const lines = (text + piece.value).split("\n");
      text = lines.pop();
      lines.forEach(show);
      if (![...left].some(({ image }) => image.isConnected)) { stop.abort(); return; }
    }
  } catch (error) {
    if (error.name !== "AbortError") for (const place of left) place.refuse(error.message || "it cannot be shown");
  }
}

function boxes(found, points, wide, high) {
  if (!(found.length || points.length) || !wide || !high) return null;
  const inPixels = [...found.map(({ at }) => at), ...points].some((at) => Math.max(...at.map(Math.abs)) > 2);
  const [sx, sy] = inPixels ? [1, 1] : [wide, high];
  return el("svg", { viewBox: `0 0 ${wide} ${high}`, class: "boxes", role: "img",
    "aria-label": `${found.length} boxes and ${points.length} points${found.some((box) => box.bad) ? ", some of them impossible" : ""}` },
    points.map(([x, y]) => el("circle", { cx: x * sx, cy: y * sy, r: Math.max(wide, high) / 80 })),
    found.map(({ at, name, bad }) => {
      const [left, top, right, bottom] = [at[0] * sx, at[1] * sy, at[2] * sx, at[3] * sy];
      return el("g", { class: bad ? "bad" : "" }, el("title", {}, [name, bad].filter(Boolean).join(": ")),
        el("rect", { x: Math.min(left, right), y: Math.min(top, bottom),
          width: Math.max(1, Math.abs(right - left)), height: Math.max(1, Math.abs(bottom - top)) }));
    }));
}

/** An image with its masks and boxes on it. */
export function layered(where, name, shown, record, masks, side, role = "image") {
  const wide = side > 512 ? { width: `min(100%, ${Math.max(256, shown.width)}px, ${(75 * shown.width / shown.height).toFixed(1)}vh)` } : {};
  return el("span", { class: "layers", style: { "aspect-ratio": `${shown.width} / ${shown.height}`, ...wide } },
    picture(where, name, role, { side, alt: `${name}, ${shown.text}` }),
    masks.map((mask) => picture(where, mask, "mask", { side, alt: `${mask}, a mask` })),
    boxes(record.boxes || [], record.points || [], shown.width, shown.height));
}

function frames(where, name, shown, side) {
  const last = Math.max(0, shown.count - 1);
  const strip = el("span", { class: "strip" });
  const many = Math.min(shown.count, 6);
  for (let at = 0; at < many; at += 1) {
    const frame = many > 1 ? Math.round((at * last) / (many - 1)) : 0;
    strip.append(picture(where, name, "frames", { side: Math.min(side, 112), frame, alt: `${name}, frame ${frame}` }));
  }
  let timer = null;
  const play = el("button", { type: "button", "aria-pressed": "false", onclick: (event) => {
    event.preventDefault();
    if (timer) { clearInterval(timer); timer = null; play.textContent = "Play"; play.setAttribute("aria-pressed", "false"); return; }
    play.textContent = "Stop";
    play.setAttribute("aria-pressed", "true");
    let frame = 0;
    const screen = strip.querySelector("img") || strip;
    timer = setInterval(() => {
      if (!strip.isConnected) { clearInterval(timer); return; }
      if (screen.complete === false) return;  // a slow frame is waited for: a new address would cancel it
      frame = (frame + 1) % shown.count;
      if (screen.tagName === "IMG") screen.src = address("api/image", { ...where, feature: name, role: "frames", frame, side: Math.min(side, 112) });
    }, 125);
  } }, "Play");
  return el("span", { class: "frames" }, strip, el("span", { class: "quiet" }, shown.text), shown.count > 1 ? play : null);
}

function audio(where, name, shown) {
  const player = el("audio", { controls: true, preload: "none", src: address("api/audio", { ...where, feature: name }), "aria-label": name });
  player.addEventListener("error", () => { say(`${name} cannot be played.`); });
  return el("span", { class: "sound" }, shown.lines ? lines(shown) : null, player, shown.lines ? null : el("span", { class: "quiet" }, shown.text));
}

/** Any value. */
export function value(where, name, shown, record, { side = 224, masks = [] } = {}) {
  if (shown.kind === "image") return layered(where, name, shown, record, masks, side);
  if (shown.kind === "mask") return layered(where, name, shown, {}, [], side, "mask");
  if (shown.kind === "frames") return frames(where, name, shown, side === "full" ? 224 : side);
  if (shown.kind === "broken") return el("span", { class: "broken" }, shown.text);
  if (shown.kind === "audio") return audio(where, name, shown);
  if (shown.kind === "line") return lines(shown);
  if (shown.kind === "heat") return heat(shown);
  if (shown.kind === "bytes") return el("code", { class: "bytes" }, `${shown.text}${shown.bytes > 64 ? " …" : ""}`);
  if (shown.kind === "text") return el("span", { class: "text" }, shown.text || "(empty)", shown.cut ? ` … ${shown.cut} more characters` : "");
  return el("span", { class: "value" }, shown.text || "(empty)");
}
