// A form for a new entity: its columns, its first links, and live results.

import { api, OtherModel } from "./api.js";
import { announce, cut, data, debounce, h, plural, title } from "./dom.js";
import { finder } from "./find.js";
import { near, viewName } from "./lists.js";

const KINDS = { numeric: "number", date: "text" };
const HINTS = {
  numeric: "a number",
  date: "a date, such as 2024-05-31",
  categories: "several categories, as in the table",
  vector: "numbers separated by commas",
  text: "words",
};
let made = 0;

// Return the panel. `save` keeps the values in the address bar; `show` gets the answer.
export function formPanel(context, { view, row, links, save, show, go, choose, close }) {
  const described = context.views.find((one) => one.view === view);
  const linkable = context.views.map((one) => one.view).filter((other) =>
    context.pairs.some(([a, b]) => (a === view && b === other) || (a === other && b === view)));
  const results = h("div", { class: "results" }, h("p", { class: "skipped" }, "Computing …"));
  const values = { ...row };
  const first = Object.fromEntries(Object.entries(links).filter(([other]) => linkable.includes(other)));
  let running = null;

  async function compute() {
    running?.abort();
    running = new AbortController();
    const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "" && value !== null));
    const some = Object.values(first).some((list) => list.length);
    save(values, first);
    if (!Object.keys(given).length && !some) {
      results.replaceChildren(h("p", { class: "skipped" }, "Fill in a column or add a link to see partners."));
      show(null);
      return;
    }
    try {
      const entity = { view, row: Object.keys(given).length ? typed(described, given) : null, links: some ? sent(first) : null };
      const answer = await api.ask("explore/new", { ...entity, k: 10 }, { signal: running.signal });
      results.replaceChildren(...answer.notes.map((note) => h("p", { class: "note" }, cut(note, 300))),
        ...near({ context, answer, entity, go }));
      show(answer);
      announce(`Partners of the new entity: ${answer.partners.map((part) => plural(part.entities.length, "entity")).join(", ")}`);
    } catch (error) {
      if (error.name === "AbortError" || error instanceof OtherModel) return;
      results.replaceChildren(h("p", { class: "warning", role: "alert" }, error.message));
      show(null);
    }
  }
  const later = debounce(350, compute);

  const inputs = described.inputs.map(({ column, kind, values: known }) => field({
    column, kind, known, value: values[column] ?? "",
    set: (value) => { values[column] = value; later(); },
  }));
  const added = h("div", {});
  function listLinks() {
    added.replaceChildren(...Object.entries(first).filter(([, list]) => list.length).map(([other, list]) =>
      h("div", { class: "links" }, viewName(context, other), h("ul", {}, list.map((link, at) => h("li", {},
        h("span", {}, title(link, 50)),
        h("label", {}, h("span", { class: "unseen" }, `Weight of ${cut(link.name ?? link.id, 40)}`),
          h("input", { type: "number", min: 0, step: "any", value: link.weight, onchange: (event) => { link.weight = Math.max(0, Number(event.target.value) || 0); later(); } })),
        h("button", { type: "button", "aria-label": `Remove ${cut(link.name ?? link.id, 40)}`, onclick: () => { list.splice(at, 1); listLinks(); compute(); } }, "Remove")))))));
  }
  listLinks();
  const adders = linkable.map((other) => finder({
    label: `Link to ${cut(other, 40)}`, view: other, context: () => context, placeholder: "id or name",
    pick: (one) => {
      first[other] ??= [];
      if (!first[other].some((link) => link.id === one.id)) first[other].push({ id: one.id, name: one.name, weight: 1 });
      listLinks();
      compute();
    },
  }));
  compute();
  return [
    h("div", { class: "over" }, h("span", { class: "of-view" }, "New entity"), h("button", { type: "button", onclick: close }, "Close")),
    h("div", { class: "choice", role: "group", "aria-label": "View of the new entity" }, context.views.map((one) =>
      h("button", { type: "button", "aria-pressed": String(one.view === view), onclick: () => choose(one.view) }, viewName(context, one.view)))),
    described.inputs.length
      ? h("form", { class: "fields", onsubmit: (event) => event.preventDefault() }, inputs)
      : h("p", { class: "skipped" }, described.features === "none" ? "This view has no columns: describe the new entity by its links."
        : "This model was fitted to arrays, not tables: give new entities their features with PMvGE.embed, or by links here."),
    linkable.length ? h("section", { class: "first" }, h("h3", {}, "First links"), added, adders)
      : h("p", { class: "note" }, "No links of this view were observed, so a new entity cannot have any."),
    h("h3", { class: "found" }, "Partners of the new entity"),
    results,
  ];
}

function field({ column, kind, known, value, set }) {
  const id = `field-${++made}`;
  const oninput = (event) => set(event.target.value);
  const label = h("label", { for: id }, data(column, 40));
  if (kind === "category" && known.length) {
    const listed = known.includes(value) || value === "" ? known : [value, ...known];
    const select = h("select", { id, onchange: oninput }, h("option", { value: "" }, "–"), listed.map((one) => h("option", { value: one }, cut(one, 60))));
    select.value = value;
    return h("div", {}, label, select);
  }
  const hint = HINTS[kind] ?? "";
  if (kind === "text") {
    const area = h("textarea", { id, rows: 2, placeholder: hint, oninput });
    area.value = value;
    return h("div", { class: "wide" }, label, area);
  }
  const list = known.length ? h("datalist", { id: `${id}-known` }, known.map((one) => h("option", { value: one }))) : null;
  const input = h("input", { id, type: KINDS[kind] ?? "text", step: kind === "numeric" ? "any" : undefined, placeholder: hint, oninput, list: list ? `${id}-known` : undefined });
  input.value = value;
  return h("div", {}, label, input, list);
}

// Values of inputs are texts; the server expects numbers and lists for some columns.
function typed(described, given) {
  return Object.fromEntries(Object.entries(given).map(([column, value]) => {
    const kind = described.inputs.find((one) => one.column === column)?.kind;
    if (kind === "numeric") return [column, Number(value)];
    if (kind === "vector") return [column, value.split(",").map(Number)];
    return [column, value];
  }));
}

const sent = (links) => Object.fromEntries(Object.entries(links).filter(([, list]) => list.length)
  .map(([view, list]) => [view, list.map(({ id, weight }) => ({ id, weight }))]));
