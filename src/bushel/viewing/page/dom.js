// Elements, addresses and requests. Text from data only ever becomes text: nothing here takes HTML.

const SVG = new Set(["svg", "g", "path", "rect", "line", "circle", "polyline", "text", "title"]);

/** Make an element: el("a", {href, class, onclick}, child, "text", …). */
export function el(name, given = {}, ...children) {
  const made = SVG.has(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [rule, set] of Object.entries(value)) made.style.setProperty(rule, set);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** The folder of the page: everything is below it, with the token. */
export const base = location.pathname.replace(/[^/]*$/, "");

export function address(page, params = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "") query.set(key, value);
  }
  const text = query.toString();
  return base + page + (text ? `?${text}` : "");
}

export const here = () => ({
  page: location.pathname.slice(base.length),
  params: Object.fromEntries(new URLSearchParams(location.search)),
});

let show = () => {};
export const onMove = (render) => { show = render; };

/** Go to a page; the address has all that it shows, so back, forward and bookmarks work. */
export function go(page, params, { replace = false } = {}) {
  const to = address(page, params);
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"]({}, "", to);
  show();
}

export function link(page, params, given, ...children) {
  return el("a", {
    href: address(page, params),
    onclick: (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      go(page, params);
    },
    ...given,
  }, ...children);
}

export async function ask(name, params = {}, signal) {
  const answer = await fetch(address(`api/${name}`, params), { signal });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error || "the page got no answer");
  return found;
}

export async function tell(name, value) {
  const answer = await fetch(address(`api/${name}`), {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value),
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error || "it could not be changed");
  return found;
}

/** Say something to those who cannot see it, and show it for a moment. */
export function say(text) {
  const place = document.getElementById("said");
  place.textContent = text;
  place.classList.remove("hidden");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => place.classList.add("hidden"), 2500);
}

export const count = (number) => Number(number).toLocaleString("en");
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

export function size(bytes) {
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let unit = -1;
  do { bytes /= 1024; unit += 1; } while (bytes >= 1024 && unit < units.length - 1);
  return `${bytes.toFixed(1)} ${units[unit]}`;
}

export function figure(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return count(value);
  return String(Number(value.toPrecision(4)));
}

export function table(head, rows, given = {}) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": given.label || head[0] },
    el("table", {},
      given.caption ? el("caption", {}, given.caption) : null,
      el("thead", {}, el("tr", {}, head.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, at) =>
        at === 0 ? el("th", { scope: "row" }, cell) : el("td", {}, cell)))))));
}

export function choice(label, options, value, onchange) {
  return el("label", { class: "field" }, el("span", {}, label),
    el("select", { onchange: (event) => onchange(event.target.value) },
      options.map(([key, text]) => el("option", { value: key, selected: key === value }, text))));
}

export function copyable(text) {
  return el("div", { class: "code" }, el("pre", { tabindex: "0" }, text),
    el("button", {
      type: "button", "aria-label": `Copy ${text.split("\n")[0]}`,
      onclick: async () => {
        try { await navigator.clipboard.writeText(text); say("Copied."); } catch { say("It could not be copied."); }
      },
    }, "Copy"));
}
