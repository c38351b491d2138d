// Start the page, keep it on the server's model, and connect the map with the address bar.

import { api, OtherModel } from "./api.js";
import { decode, hueOf, hueVariable, icon, legend, MISSING, palette } from "./colors.js";
import { announce, byId, capital, count, cut, data, debounce, h, idText, number } from "./dom.js";
import { go, lassoOf, openForm, render } from "./details.js";
import { finder } from "./find.js";
import { Space } from "./map.js";
import { change, onChange, pair, parseJson, state } from "./state.js";

const POLL = 3000; // milliseconds between looks at the server's model
const AGAIN = 400; // before another attempt, if the server changed its model meanwhile
let context = null; // facts on the model that is shown
let space = null;
let coloring = null;
let loading = null;
const names = new Map(); // of points, for the tip

// -- the model -------------------------------------------------------------------------------------

// Load the model of the server, and then show it: never a part of it beside a part of another one.
async function load() {
  for (let attempt = 0; ; attempt++) {
    try {
      const facts = await api.facts();
      const points = facts.map && space ? await api.points(facts.model) : null;
      const before = context;
      const colors = points ? await colorsOf(facts, choice(facts)) : null;
      context = facts;
      api.model = facts.model;
      document.body.dataset.model = facts.model;
      names.clear();
      if (before) byId("panel").replaceChildren(h("p", { class: "skipped" }, "Loading …"));
      showFacts();
      showMap(points, colors);
      const changed = before && before.model !== facts.model;
      if (changed) tell("A new model was saved. The page shows it now.");
      else if (before && !before.map && facts.map) tell("The map is ready.");
      await render(context, points && space, { keepFocus: true });
      return;
    } catch (error) {
      if (!(error instanceof OtherModel) || attempt > 20) throw error;
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
    }
  }
}

function reload() {
  loading ??= load().catch(fail).finally(() => {
    loading = null;
  });
  return loading;
}

api.onOther = reload;

async function poll() {
  if (!document.hidden && !loading) {
    try {
      const facts = await api.facts();
      if (byId("banner").dataset.kind === "problem") hideBanner();
      if (facts.model !== context?.model || facts.map?.id !== context?.map?.id) await reload();
      else if (facts.state !== context.state || facts.reason !== context.reason) {
        Object.assign(context, facts);
        showEmpty();
      }
    } catch (error) {
      fail(error);
    }
  }
  setTimeout(poll, POLL);
}

function fail(error) {
  if (error instanceof OtherModel) return;
  const banner = byId("banner");
  banner.textContent = error.message;
  banner.dataset.kind = "problem";
  banner.hidden = false;
  if (!context) byId("title").textContent = "No model";
}

function tell(text) {
  const banner = byId("banner");
  banner.textContent = text;
  banner.dataset.kind = "news";
  banner.hidden = false;
  setTimeout(() => banner.textContent === text && hideBanner(), 8000);
}

function hideBanner() {
  Object.assign(byId("banner"), { hidden: true, textContent: "" });
  delete byId("banner").dataset.kind;
}

function showFacts() {
  const title = context.views.map((one) => capital(cut(one.view, 30))).join(", ");
  byId("title").textContent = title;
  document.title = `${title} – pmvge explorer`;
  byId("footer").replaceChildren(`Model ${context.model}`, context.reload === "up to date" || context.reload === "off" ? "" : ` – ${context.reload}`);
}

// -- colours -----------------------------------------------------------------------------------------

// Return what to colour by: [view, column], or null for the views.
function choice(facts) {
  const wanted = parseJson(state().color, undefined);
  const exists = Array.isArray(wanted) && facts.views.some((one) => one.view === wanted[0] && [...one.columns, ...one.labels].includes(wanted[1]));
  if (exists) return wanted;
  if (state().color === "view") return null;
  const labelled = facts.views.find((one) => one.labels.length);
  return state().color === undefined && labelled ? [labelled.view, labelled.labels[0]] : null;
}

// Return the code of every point, and the colouring.
async function colorsOf(facts, wanted) {
  const codes = new Uint8Array(facts.map.n);
  let start = 0;
  let found = null;
  const starts = facts.views.map((one, at) => {
    const here = start;
    codes.fill(wanted ? MISSING : at % 250, here, here + one.n);
    start += one.n;
    return here;
  });
  if (wanted) {
    found = await api.ask("explore/colors", { view: wanted[0], column: wanted[1] }, { model: facts.model });
    codes.set(decode(found.codes), starts[facts.views.findIndex((one) => one.view === wanted[0])]);
    delete found.codes;
  }
  return { codes, coloring: found };
}

function showColors({ codes, coloring: found }) {
  coloring = found;
  space.codes = codes;
  space.color(codes, palette(coloring));
  document.body.classList.toggle("by-column", coloring !== null);
  byId("key").replaceChildren(...legend(coloring, { number, count, data }));
  listColorings();
  listViews();
}

async function recolor() {
  if (!context?.map || !space) return;
  try {
    showColors(await colorsOf(context, choice(context)));
  } catch (error) {
    fail(error);
  }
}

function listColorings() {
  const select = byId("color");
  const now = choice(context);
  select.replaceChildren(h("option", { value: "view" }, "view"), ...context.views.flatMap((one) => {
    const columns = [...new Set([...one.labels, ...one.columns])];
    return columns.length ? [groupOf(one.view, columns)] : [];
  }));
  select.value = now ? pair(...now) : "view";
}

function groupOf(view, columns) {
  return h("optgroup", { label: cut(view, 40) }, columns.map((column) => h("option", { value: pair(view, column) }, cut(column, 40))));
}

function hiddenViews() {
  const names = parseJson(state().hide, []);
  const positions = Array.isArray(names) ? names.map((view) => context.views.findIndex((one) => one.view === view)) : [];
  return new Set(positions.filter((at) => at >= 0));
}

function listViews() {
  const hidden = hiddenViews();
  byId("views").replaceChildren(...context.views.map((one, at) => h("button", {
    type: "button", "aria-pressed": String(!hidden.has(at)), title: hidden.has(at) ? "Show this view" : "Hide this view",
    onclick: () => {
      const next = new Set(hidden);
      if (!next.delete(at)) next.add(at);
      change({ hide: next.size ? JSON.stringify([...next].map((index) => context.views[index].view)) : null });
    },
  }, icon(at, coloring ? "var(--soft)" : hueVariable(hueOf(at))), h("bdi", {}, cut(one.view, 30)), h("small", {}, count(one.n)))));
}

// -- the map -----------------------------------------------------------------------------------------

function showMap(points, colors) {
  showEmpty();
  if (!space) return;
  if (!points) {
    space.clear();
    return;
  }
  space.hidden = hiddenViews();
  space.set(points, context.views.map((one) => one.n));
  showColors(colors);
  space.lookAt(state().camera);
  space.choose(lassoOf(state()));
  byId("marks").setAttribute("aria-label", `Map of ${count(context.map.n)} entities`);
}

function showEmpty() {
  const empty = byId("empty");
  const there = Boolean(context.map && space);
  empty.hidden = there;
  document.body.classList.toggle("no-map", !there);
  if (there) return;
  const text = !space ? "This browser cannot draw the map: it has no WebGL 2."
    : context.state === "computing" ? `The map of the new model is being computed: ${context.reason}.`
      : context.state === "failed" ? `The map could not be computed: ${cut(context.reason, 300)}`
        : `There is no map: ${context.reason}.`;
  empty.replaceChildren(h("p", {}, text),
    context.state === "missing" && space ? h("p", { class: "note" }, "Run ", h("code", {}, "pmvge explore"), " with the folder of the model to compute it. It is saved beside the model, and appears here.") : "",
    h("p", { class: "note" }, "The search box and the details work without it."));
}

const showTip = debounce(60, async (point, left, top) => {
  const tip = byId("tip");
  if (point === null || !context) {
    tip.hidden = true;
    return;
  }
  const [view, at] = space.position(point);
  const kind = context.views[view].view;
  try {
    if (!names.has(point)) names.set(point, (await api.ask("explore/names", { positions: { [kind]: [at] } })).found[0]);
  } catch {
    return;
  }
  const one = names.get(point);
  if (space.hovered !== point || !one) return;
  tip.replaceChildren(h("b", {}, data(one.name || idText(one.id), 60)), h("small", {}, data(kind, 30)));
  tip.hidden = false;
  tip.style.setProperty("left", `${Math.min(left + 14, space.width - tip.offsetWidth - 8)}px`);
  tip.style.setProperty("top", `${top > 60 ? top - tip.offsetHeight - 12 : top + 16}px`);
});

async function pick(point) {
  const [view, at] = space.position(point);
  const kind = context.views[view].view;
  try {
    const { found } = await api.ask("explore/names", { positions: { [kind]: [at] } });
    go(found[0]);
  } catch (error) {
    fail(error);
  }
}

function lassoMode(on) {
  space.lassoing = on;
  byId("lasso").setAttribute("aria-pressed", String(on));
  byId("stage").classList.toggle("lassoing", on);
}

function start() {
  try {
    space = new Space({
      stage: byId("stage"), points: byId("points"), marks: byId("marks"),
      on: {
        pick,
        hover: (point, left, top) => {
          space.hovered = point;
          showTip(point, left, top);
        },
        camera: (text) => change({ camera: text }, { replace: true }),
        lasso: (vertices) => {
          lassoMode(false);
          if (vertices) change({ lasso: JSON.stringify(vertices.map((vertex) => vertex.map((x) => Number(x.toPrecision(4))))), view: null, id: null, form: null, with_view: null, with_id: null });
          else space.draw();
        },
      },
    });
  } catch {
    space = null; // no WebGL 2: everything but the map works
  }
  byId("find").append(finder({ label: "Find an entity", placeholder: "Find by id or name", pick: go, context: () => context }));
  byId("home").addEventListener("click", () => change({ view: null, id: null, with_view: null, with_id: null, form: null, row: null, links: null, lasso: null }));
  byId("new").addEventListener("click", () => context && openForm(state().view && context.views.some((one) => one.view === state().view) ? state().view : formView()));
  byId("skip").addEventListener("click", () => byId("panel").focus());
  byId("color").addEventListener("change", (event) => change({ color: event.target.value }));
  byId("zoom-in").addEventListener("click", () => space?.zoomBy(1.6));
  byId("zoom-out").addEventListener("click", () => space?.zoomBy(1 / 1.6));
  byId("zoom-all").addEventListener("click", () => space?.zoomToAll());
  byId("lasso").addEventListener("click", () => space && lassoMode(!space.lassoing));
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, dialog");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      byId("find").querySelector("input").focus();
    } else if (event.key === "Escape" && space?.lassoing) lassoMode(false);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (space?.codes && context?.map) space.color(space.codes, palette(coloring));
    space?.draw();
  });
  onChange(update);
  reload().then(() => {
    document.body.dataset.drawn = "yes";
    setTimeout(poll, POLL);
  });
}

// The view that a new entity most likely has: the first with columns, else the first.
const formView = () => (context.views.find((one) => one.inputs.length) ?? context.views[0]).view;

// The address bar has changed.
function update(now, before, byHistory) {
  if (!context) return;
  const differs = (...keys) => keys.some((key) => now[key] !== before[key]);
  const mapped = space && context.map ? space : null;
  if (differs("color")) recolor();
  if (mapped && differs("hide")) {
    mapped.hide(hiddenViews());
    listViews();
  }
  if (mapped && differs("camera") && now.camera !== (mapped.cameraText() ?? undefined)) mapped.lookAt(now.camera);
  if (mapped && differs("lasso")) mapped.choose(lassoOf(now));
  if (differs("view", "id", "with_view", "with_id", "form", "unknown") || (differs("lasso") && now.id === undefined)
    || (byHistory && differs("row", "links"))) {
    render(context, mapped);
  }
}

start();
