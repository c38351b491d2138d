// The details of one entity, of a selection, or of the whole model.

import { api } from "./api.js";
import { count, cut, data, h, idText, percent, plural, title } from "./dom.js";
import { near, viewName } from "./lists.js";

const LISTED = 30; // entities of a selection in each view

export function heading(context, view, ...more) {
  return h("div", { class: "over" }, viewName(context, view), ...more);
}

export function columnsOf(columns, name) {
  const rows = Object.entries(columns).filter(([column]) => column !== name);
  if (!rows.length) return h("p", { class: "skipped" }, "The model keeps no columns of this view.");
  return h("dl", { class: "row" }, rows.map(([column, value]) => h("div", {},
    h("dt", {}, data(column, 40)), h("dd", {}, value === "" ? "–" : data(value, 400)))));
}

// The details of a known entity.
export async function entityPanel(context, { view, id }, { unknown, signal, go, compare, back, toggle }) {
  const answer = await api.ask("explore/entity", { view, id, k: 10, exclude_known: unknown }, { signal });
  const entity = { view, id: answer.id, name: answer.name, at: answer.at };
  const kind = context.views.find((one) => one.view === view);
  const content = [
    heading(context, view, back),
    h("h2", { class: "title" }, data(answer.name || idText(answer.id), 200)),
    h("p", { class: "under" }, answer.name ? h("small", {}, data(idText(answer.id), 200)) : null,
      h("button", { type: "button", class: "compare", onclick: compare }, "Compare with …")),
    h("section", {}, h("h3", { class: "unseen" }, "Columns"), columnsOf(answer.columns, answer.name === null ? null : kind.name)),
    context.links ? h("label", { class: "check" },
      h("input", { type: "checkbox", id: "unknown", ...(unknown ? { checked: true } : {}), onchange: (event) => toggle(event.target.checked) }),
      "Leave out known links") : null,
    ...answer.notes.map((note) => h("p", { class: "note" }, cut(note, 300))),
    ...near({ context, answer, entity, go }),
  ];
  return { content, entity, answer };
}

// What a lasso holds: counts, and the first entities of each view.
export async function selectionPanel(context, positions, { signal, go, close }) {
  const total = positions.reduce((sum, [, list]) => sum + list.length, 0);
  const asked = Object.fromEntries(positions.filter(([, list]) => list.length).map(([view, list]) => [view, list.slice(0, LISTED)]));
  const { found } = total ? await api.ask("explore/names", { positions: asked }, { signal }) : { found: [] };
  return [
    h("div", { class: "over" }, h("span", { class: "of-view" }, "Selection"),
      h("button", { type: "button", onclick: close }, "Clear the selection")),
    h("h2", { class: "title" }, plural(total, "entity")),
    h("ul", { class: "counts" }, positions.map(([view, list]) => h("li", {}, viewName(context, view), h("b", { class: "n" }, count(list.length))))),
    total ? null : h("p", { class: "skipped" }, "There is no entity inside the line. Draw around some points."),
    ...positions.filter(([, list]) => list.length).map(([view, list]) => h("section", { class: "near" },
      h("h3", {}, viewName(context, view), list.length > LISTED ? h("span", { class: "measure" }, `the first ${LISTED} of ${count(list.length)}`) : null),
      h("ol", { class: "entities" }, found.filter((one) => one.view === view).map((one) => h("li", {},
        h("div", { class: "entity" }, h("button", { type: "button", class: "go", onclick: () => go(one) }, title(one, 70)))))))),
  ];
}

// What the model is, and where to start.
export function overviewPanel(context, { go, add }) {
  const { map, views, pairs } = context;
  const shares = map && map.partner_share !== null;
  return [
    h("h2", { class: "title" }, "What you see"),
    h("p", { class: "lead" }, `${map ? "Every point is an entity" : "The model has"}: ${listed(views.map((one) => `${cut(one.view, 40)} (${count(one.n)})`))}. `,
      map ? "Points that lie near to each other are similar, or expected to be linked." : ""),
    shares ? h("p", { class: "note" }, `Of the points of another view that are nearest to an entity, ${percent(map.partner_share)} are among its best partners`,
      map.plain_share === null ? "." : `; on a plain t-SNE map of the vectors ${percent(map.plain_share)}.`) : null,
    map ? h("p", { class: "note" }, cut(map.method, 400)) : null,
    h("section", { class: "near" }, h("h3", {}, "Start with one of these"),
      views.map((one) => h("div", { class: "examples" }, viewName(context, one.view),
        h("div", { class: "chips" }, one.examples.map((example) =>
          h("button", { type: "button", onclick: () => go(example) }, title(example, 36))))))),
    h("section", { class: "near" }, h("h3", {}, "Or"),
      h("ul", { class: "hints" },
        h("li", {}, "search for an id or a name, above,"),
        map ? h("li", {}, "click a point, or draw around some with the lasso (or with the shift key),") : null,
        h("li", {}, h("button", { type: "button", class: "link", onclick: add }, "describe a new entity"), " and see its partners at once."))),
    pairs.length ? h("section", { class: "near" }, h("h3", {}, "Views that are linked"),
      h("ul", { class: "counts" }, pairs.map(([a, b]) => h("li", {}, h("span", {}, viewName(context, a), " – ", viewName(context, b)))))) : null,
  ];
}

export function listed(parts) {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

