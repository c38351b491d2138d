// Why an expected weight is what it is: its factors as bars, and known links that support it.

import { api, OtherModel } from "./api.js";
import { called, count, cut, data, h, number, title } from "./dom.js";

const SHOWN = 8; // factors with their own bar

// Return a box that fills itself.
export function explanation(context, entity, partner) {
  const box = h("div", { class: "explained" }, h("p", { class: "note" }, "Computing …"));
  fill(box, context, entity, partner).catch((error) => {
    if (!(error instanceof OtherModel)) box.replaceChildren(h("p", { class: "warning" }, error.message));
  });
  return box;
}

async function fill(box, context, entity, partner) {
  const { id, view, row, links } = entity;
  const left = id === undefined || id === null ? { view, ...(row ? { rows: [row] } : {}), ...(links ? { links } : {}) } : { view, ids: [id] };
  const answer = await api.ask("explain", {
    entities: left, others: { view: partner.view, ids: [partner.id] }, parts: 30, k: 4,
  });
  const found = answer.explanations[0];
  const parts = found.parts.filter((part) => part.value !== null);
  const size = (part) => Math.abs(part.value);
  const base = parts.filter((part) => part.kind === "alpha");
  const rest = parts.filter((part) => part.kind !== "alpha").sort((a, b) => size(b) - size(a));
  const shown = rest.slice(0, SHOWN);
  const others = rest.slice(SHOWN);
  const sum = others.reduce((total, part) => total + part.value, 0);
  const rows = [...shown];
  if (others.length) rows.push({ name: `${count(others.length)} smaller factors`, view: null, value: sum });
  const largest = Math.max(...rows.map(size), 1e-9);
  // With some families, such as "bernoulli", the factors multiply to a rate, not to the expected weight.
  const rate = Math.exp(found.log_expected_weight);
  const isRate = Math.abs(rate - found.expected_weight) > 1e-3 * rate;
  box.replaceChildren(
    h("p", { class: "note" }, "Expected weight ", h("b", {}, number(found.expected_weight)),
      found.linked ? ` (known link of weight ${number(found.linked)})` : "",
      isRate ? `, at the rate ${number(rate)}` : "",
      base.length ? ` = base rate ${number(Math.exp(base[0].value))}, multiplied by:` : ", the product of:"),
    h("dl", { class: "factors" }, rows.map((part) => h("div", {},
      h("dt", {}, data(part.name, 60), part.view ? h("small", {}, data(part.view, 30)) : null),
      h("dd", {},
        h("span", { class: `factor ${part.value < 0 ? "less" : "more"}`, "aria-hidden": "true",
          style: { "--share": String(size(part) / largest) } }, h("i")),
        h("b", { class: "n" }, `× ${number(Math.exp(part.value))}`))))),
    evidence(found, partner, context),
    ...found.notes.map((note) => h("p", { class: "note" }, cut(note, 400))));
}

function evidence(found, partner) {
  if (!found.evidence?.length) return null;
  return h("div", {}, h("p", { class: "note" }, `Known links with ${cut(partner.view, 40)} most like ${called(partner)}:`),
    h("ul", { class: "known" }, found.evidence.map((one) =>
      h("li", {}, title(one, 60), h("small", {}, `weight ${number(one.weight)}`)))));
}
