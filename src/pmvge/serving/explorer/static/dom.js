// Elements and texts. Texts of the data only become text nodes and attribute values, never HTML.

export const byId = (id) => document.getElementById(id);

// Return an element. Keys that start with "on" are listeners; "style" sets CSS properties.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") {
      for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    } else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Return a text as one line of at most `length` characters.
export function cut(text, length = 80) {
  const characters = [...String(text).slice(0, 4 * length).replace(/\p{Cc}|\u2028|\u2029/gu, " ")];
  return characters.length <= length ? characters.join("") : `${characters.slice(0, length - 1).join("")}…`;
}

// A text of the data, which keeps its own writing direction.
export const data = (text, length = 80) => h("bdi", {}, cut(text, length));

// What an entity is called: its name, or its id.
export const called = (one) => cut(one.name || idText(one.id), 80);
export const idText = (id) => (String(id) === "" ? "(empty id)" : String(id));

// The name first, and the id small; without a name, what the columns say.
export function title(one, length = 80) {
  if (!one.name) return [h("span", { class: "name" }, data(idText(one.id), length)), one.about ? h("small", { class: "about" }, data(one.about, 60)) : null];
  return [h("span", { class: "name" }, data(one.name, length)), h("small", {}, data(idText(one.id), 40))];
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const count = (n) => whole.format(n);

export function number(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  const size = Math.abs(x);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return x.toExponential(1);
  if (size >= 10_000) return whole.format(x);
  if (size >= 1000) return String(Math.round(x)); // years
  return String(Number(x.toPrecision(3)));
}

export const percent = (share) => `${number(100 * share)} %`;
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const plural = (n, word) => `${count(n)} ${n === 1 ? word : word.endsWith("y") ? `${word.slice(0, -1)}ies` : `${word}s`}`;

// Tell screen readers.
export function announce(text) {
  byId("status").textContent = text;
}

export function debounce(wait, work) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...args), wait);
  };
}
