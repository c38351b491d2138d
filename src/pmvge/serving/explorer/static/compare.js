// Two entities side by side: their columns, shared partners, and those of one only.

import { api } from "./api.js";
import { called, data, h, idText, number, title } from "./dom.js";
import { columnsOf } from "./panel.js";
import { viewName } from "./lists.js";

const AMONG = 30; // best partners of each that are compared
const LISTED = 8;

export async function comparePanel(context, left, right, { signal, go, close }) {
  const [a, b] = await Promise.all([left, right].map((one) =>
    api.ask("explore/entity", { view: one.view, id: one.id, k: AMONG }, { signal })));
  const linked = context.pairs.some(([x, y]) => (x === a.view && y === b.view) || (x === b.view && y === a.view));
  let weight = null;
  if (linked && !(a.view === b.view && a.at === b.at)) {
    const answer = await api.ask("intensity", { entities: { view: a.view, ids: [a.id] }, others: { view: b.view, ids: [b.id] } }, { signal });
    weight = answer.expected_weights[0][0];
  }
  const similar = a.view === b.view ? a.similar.find((one) => one.at === b.at)?.similarity : undefined;
  const views = context.views.map((one) => one.view).filter((view) => a.partners.some((p) => p.view === view) && b.partners.some((p) => p.view === view));
  const content = [
    h("div", { class: "over" }, h("span", { class: "of-view" }, "Comparison"),
      h("button", { type: "button", onclick: close }, "End the comparison")),
    h("div", { class: "versus" }, [a, b].map((one) => h("div", { class: "side" }, viewName(context, one.view),
      h("h2", {}, h("button", { type: "button", class: "go", onclick: () => go(one) }, data(one.name || idText(one.id), 120))),
      one.name ? h("small", {}, data(idText(one.id), 60)) : null,
      columnsOf(one.columns, one.name === null ? null : context.views.find((v) => v.view === one.view).name)))),
    h("p", { class: "verdict" }, weight !== null
      ? ["Expected weight of a link between the two: ", h("b", {}, number(weight)), "."]
      : a.view === b.view && a.at === b.at ? "Both are the same entity."
        : `No links between ${a.view} and ${b.view} were observed, so the two have no expected weight.`),
    similar === undefined ? null : h("p", { class: "note" }, `Similarity of the two: ${number(similar)}.`),
    ...views.map((view) => partnersOf(context, view, a, b, go)),
  ];
  return { content, a, b };
}

function partnersOf(context, view, a, b, go) {
  const [mine, theirs] = [a, b].map((one) => one.partners.find((part) => part.view === view));
  const key = mine.by === "intensity" && theirs.by === "intensity" ? "expected_weight" : "similarity";
  if (mine.by !== theirs.by) return null;
  const other = new Map(theirs.entities.map((one) => [one.at, one]));
  const own = new Set(mine.entities.map((one) => one.at));
  const shared = mine.entities.filter((one) => other.has(one.at));
  const cell = (one) => h("td", { class: "n" }, one ? [one.known && mine.by === "intensity" ? h("span", { class: "dot", title: "known link" }, "known ") : null, number(one[key])] : "");
  const row = (one, left, right) => h("tr", {}, h("td", {}, h("button", { type: "button", class: "go", onclick: () => go({ ...one, view }) }, title(one, 50))), cell(left), cell(right));
  const group = (text, rows) => (rows.length ? h("tbody", {}, h("tr", {}, h("th", { colspan: 3, scope: "rowgroup" }, text)), rows) : null);
  const measure = mine.by === "intensity" ? "expected weight" : "similarity";
  return h("section", { class: "near" }, h("h3", {}, viewName(context, view),
    h("span", { class: "measure" }, `${measure}; best ${Math.min(AMONG, Math.max(mine.entities.length, theirs.entities.length))} of each`)),
    h("table", { class: "both" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Partner"), [a, b].map((one) => h("th", { class: "n", scope: "col" }, called(one).slice(0, 18))))),
      group(`Shared: ${shared.length}`, shared.slice(0, LISTED).map((one) => row(one, one, other.get(one.at)))),
      group(`Only ${called(a).slice(0, 30)}`, mine.entities.filter((one) => !other.has(one.at)).slice(0, LISTED).map((one) => row(one, one, null))),
      group(`Only ${called(b).slice(0, 30)}`, theirs.entities.filter((one) => !own.has(one.at)).slice(0, LISTED).map((one) => row(one, null, one)))));
}
