// What the page shows, in the address bar: the part after #. A link to it shows the same.

const KEYS = ["view", "id", "color", "hide", "camera", "lasso", "with_view", "with_id", "unknown", "form", "row", "links"];
const listeners = [];
let current = parse();

function parse() {
  const found = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(KEYS.filter((key) => found.has(key)).map((key) => [key, found.get(key)]));
}

export const state = () => current;

// Change some values; null removes one. Without `replace`, the browser's back button undoes it.
export function change(values, { replace = false } = {}) {
  const before = current;
  const next = { ...before, ...values };
  for (const key of Object.keys(next)) if (next[key] === null || next[key] === undefined) delete next[key];
  if (KEYS.every((key) => next[key] === before[key])) return;
  current = next;
  const hash = new URLSearchParams(KEYS.filter((key) => key in next).map((key) => [key, next[key]])).toString();
  history[replace ? "replaceState" : "pushState"](null, "", hash ? `#${hash}` : location.pathname + location.search);
  for (const listener of listeners) listener(next, before, false);
}

// Call a function with the new values, the old ones, and whether the browser's buttons changed them.
export function onChange(listener) {
  listeners.push(listener);
}

addEventListener("popstate", () => {
  const before = current;
  current = parse();
  for (const listener of listeners) listener(current, before, true);
});

// Names of views and columns may have any character.
export const pair = (view, column) => JSON.stringify([view, column]);

export function parseJson(text, otherwise) {
  try {
    return text === undefined ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}
