// Choose what the details show: a form, a comparison, an entity, a selection, or the model.

import { OtherModel } from "./api.js";
import { announce, byId, called, cut, h } from "./dom.js";
import { comparePanel } from "./compare.js";
import { entityPanel, overviewPanel, selectionPanel } from "./panel.js";
import { finder } from "./find.js";
import { formPanel } from "./form.js";
import { change, parseJson, state } from "./state.js";

const LABELLED = 4; // partners of a view that are named on the map
let running = null;

export const go = (one) => change({ view: one.view, id: String(one.id), with_view: null, with_id: null, form: null, row: null, links: null });
export const openForm = (view) => change({ form: view, row: null, links: null });

// Show what the address bar says. `keepFocus` is for changes that the user did not make here.
export async function render(context, space, { keepFocus = false } = {}) {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  const now = state();
  const panel = byId("panel");
  const target = targetOf(now);
  const moved = panel.dataset.target !== target;
  const inside = panel.contains(document.activeElement);
  panel.setAttribute("aria-busy", "true");
  const timer = setTimeout(() => moved && panel.replaceChildren(h("p", { class: "skipped" }, "Loading …")), 250);
  try {
    const content = await build(context, space, now, signal);
    if (signal.aborted) return;
    clearTimeout(timer);
    panel.replaceChildren(...content.flat().filter(Boolean));
    panel.dataset.target = target;
    if (moved) panel.scrollTop = 0;
    if (moved && inside && !keepFocus) panel.focus({ preventScroll: true });
  } catch (error) {
    clearTimeout(timer);
    if (error.name === "AbortError" || error instanceof OtherModel) return;
    space?.mark({});
    panel.replaceChildren(h("p", { class: "warning", role: "alert" }, error.message),
      h("p", {}, h("button", { type: "button", onclick: () => change({ view: null, id: null, with_view: null, with_id: null, form: null, lasso: null }) }, "Back to the overview")));
    panel.dataset.target = "";
  } finally {
    if (!signal.aborted) panel.removeAttribute("aria-busy");
  }
}

const targetOf = (now) => JSON.stringify([now.form, now.view, now.id, now.with_view, now.with_id, now.lasso, now.unknown]);

async function build(context, space, now, signal) {
  if (now.form !== undefined) return form(context, space, now);
  if (now.id !== undefined && now.with_id !== undefined) return comparison(context, space, now, signal);
  if (now.id !== undefined) return entity(context, space, now, signal);
  space?.mark({});
  const vertices = lassoOf(now);
  if (vertices && space) {
    const inside = space.choose(vertices);
    const lists = context.views.map((one) => [one.view, []]);
    for (const point of inside) {
      const [view, at] = space.position(point);
      lists[view][1].push(at);
    }
    announce(`${inside.length} entities selected`);
    return selectionPanel(context, lists, { signal, go, close: () => change({ lasso: null }) });
  }
  return overviewPanel(context, { go, add: () => openForm(context.views[0].view) });
}

export function lassoOf(now) {
  const vertices = parseJson(now.lasso, null);
  const fine = Array.isArray(vertices) && vertices.length > 2
    && vertices.every((vertex) => Array.isArray(vertex) && vertex.length === 2 && vertex.every(Number.isFinite));
  return fine ? vertices : null;
}

async function entity(context, space, now, signal) {
  const box = h("div", { class: "with", hidden: true });
  const compare = () => {
    box.hidden = false;
    box.replaceChildren(finder({ label: "Compare with", context: () => context, placeholder: "id or name",
      pick: (one) => change({ with_view: one.view, with_id: String(one.id) }) }));
    box.querySelector("input").focus();
  };
  const back = now.lasso
    ? h("button", { type: "button", onclick: () => change({ view: null, id: null }) }, "Back to the selection")
    : h("button", { type: "button", onclick: () => change({ view: null, id: null }) }, "Close");
  const { content, entity: one, answer } = await entityPanel(context, { view: now.view, id: now.id }, {
    unknown: now.unknown === "1", signal, go, compare, back,
    toggle: (on) => change({ unknown: on ? "1" : null }, { replace: true }),
  });
  content.splice(3, 0, box);
  if (space) {
    const from = place(context, space, one.view, one.at);
    markNear(context, space, from, called(one), answer);
    space.reveal(from);
  }
  announce(`${called(one)}, ${one.view}`);
  return content;
}

async function comparison(context, space, now, signal) {
  const [left, right] = [{ view: now.view, id: now.id }, { view: now.with_view, id: now.with_id }];
  const { content, a, b } = await comparePanel(context, left, right, {
    signal, go, close: () => change({ with_view: null, with_id: null }),
  });
  if (space) {
    const places = [a, b].map((one) => place(context, space, one.view, one.at));
    const best = [a, b].flatMap((one, at) => nearest(context, space, one).map(({ to, known }) => ({ from: places[at], to, known })));
    space.mark({
      lines: best,
      rings: places.map((at) => ({ place: at, strong: true })),
      labels: [a, b].map((one, at) => ({ place: places[at], text: cut(called(one), 28), strong: true })),
    });
  }
  announce(`Comparison of ${called(a)} and ${called(b)}`);
  return content;
}

function form(context, space, now) {
  const view = context.views.some((one) => one.view === now.form) ? now.form : context.views[0].view;
  return formPanel(context, {
    view, row: textsOf(parseJson(now.row, {})), links: linksOf(parseJson(now.links, {})), go,
    close: () => change({ form: null, row: null, links: null }),
    choose: (other) => change({ form: other, row: null, links: null }),
    save: (row, first) => {
      const filled = Object.fromEntries(Object.entries(row).filter(([, value]) => value !== ""));
      const some = Object.fromEntries(Object.entries(first).filter(([, list]) => list.length));
      change({ row: Object.keys(filled).length ? JSON.stringify(filled) : null,
        links: Object.keys(some).length ? JSON.stringify(some) : null }, { replace: true });
    },
    show: (answer) => {
      if (!space) return;
      if (!answer?.xy) space.mark({});
      else markNear(context, space, space.place(answer.xy), "new entity", answer);
    },
  });
}

// The address bar may hold anything: keep what a form can show.
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const textsOf = (row) => (isObject(row) ? Object.fromEntries(Object.entries(row).filter(([, value]) => typeof value === "string")) : {});
const linksOf = (links) => (isObject(links) ? Object.fromEntries(Object.entries(links).filter(([, list]) => Array.isArray(list))
  .map(([view, list]) => [view, list.filter((link) => isObject(link) && ["string", "number"].includes(typeof link.id))
    .map(({ id, name, weight }) => ({ id, name: typeof name === "string" ? name : undefined, weight: Number.isFinite(weight) && weight >= 0 ? weight : 1 }))])) : {});

// -- marks on the map ------------------------------------------------------------------------------

function place(context, space, view, at) {
  return space.at(space.point(context.views.findIndex((one) => one.view === view), at));
}

function nearest(context, space, answer) {
  return answer.partners.filter((part) => part.by === "intensity").flatMap((part) =>
    part.entities.slice(0, LABELLED).map((one) => ({ one, known: one.known, to: place(context, space, part.view, one.at) })));
}

function markNear(context, space, from, name, answer) {
  const best = nearest(context, space, answer);
  space.mark({
    lines: best.map(({ to, known }) => ({ from, to, known })),
    rings: [...best.map(({ to }) => ({ place: to })), { place: from, strong: true }],
    labels: [{ place: from, text: cut(name, 28), strong: true }, ...best.map(({ to, one }) => ({ place: to, text: cut(called(one), 24) }))],
  });
}
