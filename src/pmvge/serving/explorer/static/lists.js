// Lists of entities: partners with their expected weights, and similar ones.

import { called, capital, h, number, title } from "./dom.js";
import { hueOf, hueVariable, icon } from "./colors.js";
import { explanation } from "./explain.js";

export function viewName(context, view) {
  const at = context.views.findIndex((one) => one.view === view);
  return h("span", { class: "of-view" }, icon(at, hueVariable(hueOf(at))), h("bdi", {}, capital(view)));
}

// Return a list of entities with bars. `why` is the entity that they are partners of, if pairs can
// be explained; `go` is called with the chosen entity.
export function entities({ context, view, list, by, go, why = null }) {
  const key = by === "intensity" ? "expected_weight" : "similarity";
  const largest = Math.max(...list.map((one) => Math.max(0, one[key] ?? 0)), 1e-300);
  if (!list.length) return h("p", { class: "skipped" }, "None.");
  return h("ol", { class: "entities" }, list.map((one) => {
    const linked = by === "intensity" && one.known;
    const share = Math.min(1, Math.max(0, one[key] ?? 0) / largest);
    const row = h("li", {},
      h("div", { class: "entity" },
        h("button", { type: "button", class: "go", onclick: () => go({ ...one, view }) }, title(one, 70),
          linked ? h("span", { class: "pill known", style: { "--c": hueVariable(0) } }, "known link") : null),
        h("span", { class: "weight" },
          h("i", { class: "bar", "aria-hidden": "true", style: { "--share": String(share) } }),
          h("b", { class: "n" }, number(one[key])))));
    if (why) row.firstChild.append(whyButton(context, row, why, { ...one, view }));
    return row;
  }));
}

// A button that opens the explanation of a pair below the row.
function whyButton(context, row, entity, partner) {
  const button = h("button", { type: "button", class: "why", "aria-expanded": "false", "aria-label": `Why ${called(partner)}?` }, "Why?");
  let box = null;
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
    if (open && !box) {
      box = explanation(context, entity, partner);
      row.append(box);
    }
    if (box) box.hidden = !open;
  });
  return button;
}

// Return the parts of the details: partners in every view, then similar entities.
export function near({ context, answer, entity, go }) {
  const parts = answer.partners.map(({ view, by, uncalibrated, entities: list }) => h("section", { class: "near" },
    h("h3", {}, viewName(context, view),
      h("span", { class: "measure" }, by === "intensity" ? "expected weight" : "similarity")),
    by === "similarity" ? h("p", { class: "note" }, `No links between ${entity.view} and ${view} were observed, so there is no expected weight.`) : null,
    uncalibrated ? h("p", { class: "note" }, "Expected weights of new entities are not calibrated: their order holds, their size may not.") : null,
    entities({ context, view, list, by, go, why: by === "intensity" ? entity : null })));
  parts.push(h("section", { class: "near" },
    h("h3", {}, viewName(context, entity.view), h("span", { class: "measure" }, "most similar")),
    entities({ context, view: entity.view, list: answer.similar.slice(0, 8), by: "similarity", go })));
  return parts;
}
