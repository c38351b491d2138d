// Colours and shapes: those of the reports. Views differ in shape, too.

import { h, svg } from "./dom.js";

export const HUES = 10;
export const GREY = 10;
export const OTHER = 254;
export const MISSING = 255;
const STEPS = 250;
const SCALE = [4, 2, 8]; // the hues of a scale of numbers, from low to high
// The same shapes as in the reports, in a box of 12 x 12.
const SHAPES = [
  "M6 1.5a4.5 4.5 0 1 0 .01 0z",
  "M6 .6 11.4 6 6 11.4.6 6z",
  "M2 2h8v8H2z",
  "M6 1.4 11 10.2H1z",
];

export const shapeOf = (view) => view % SHAPES.length;
export const hueOf = (view) => (view + 2) % HUES; // blue and orange mean training and held out
export const hueVariable = (hue) => `var(--c${hue})`;

export function icon(view, color) {
  const shape = svg("path", { d: SHAPES[shapeOf(view)] });
  const element = svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true", class: "shape" }, shape);
  element.style.setProperty("--c", color); // the policy of the page forbids style attributes
  return element;
}

const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

// Return a CSS variable's colour as numbers from 0 to 255.
export function rgb(variable) {
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  const text = probe.fillStyle; // #rrggbb
  return [1, 3, 5].map((at) => Number.parseInt(text.slice(at, at + 2), 16));
}

const mix = (a, b, share) => a.map((x, at) => Math.round(x + share * (b[at] - x)));

// Return 256 colours (RGBA) for the codes of a colouring.
export function palette(coloring) {
  const colors = new Uint8Array(256 * 4);
  const set = (code, [r, g, b], alpha = 255) => colors.set([r, g, b, alpha], 4 * code);
  const hues = Array.from({ length: HUES }, (_, hue) => rgb(`--c${hue}`));
  const grey = rgb(`--c${GREY}`);
  const stops = SCALE.map((hue) => hues[hue]);
  for (let code = 0; code < 256; code++) {
    if (coloring === null) set(code, hues[hueOf(code)]);
    else if (coloring.kind === "categories") set(code, code < coloring.categories.length ? hues[code % HUES] : grey);
    else {
      const at = (Math.min(code, STEPS) / STEPS) * (stops.length - 1);
      const low = Math.min(Math.floor(at), stops.length - 2);
      set(code, mix(stops[low], stops[low + 1], at - low));
    }
  }
  if (coloring !== null) {
    set(OTHER, grey, 200);
    set(MISSING, grey, 90);
  }
  return colors;
}

// Return the meaning of the colours, as elements.
export function legend(coloring, { number, count, data }) {
  const entry = (color, text, n) => h("span", { class: "entry" },
    h("i", { class: "swatch", style: { background: color } }), text, n === undefined ? null : h("small", {}, count(n)));
  if (coloring === null) return [];
  const grey = hueVariable(GREY);
  const parts = coloring.kind === "categories"
    ? coloring.categories.map(({ text, count: n }, at) => entry(hueVariable(at % HUES), data(text === "" ? "(empty)" : text, 40), n))
    : [h("span", { class: "entry" }, number(coloring.low),
        h("i", { class: "scale", style: { background: `linear-gradient(to right, ${SCALE.map(hueVariable).join(", ")})` } }),
        number(coloring.high))];
  if (coloring.others) parts.push(entry(grey, `${count(coloring.other_values)} other values`, coloring.others));
  if (coloring.missing) parts.push(entry(grey, "no value", coloring.missing));
  return parts;
}

export function decode(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
