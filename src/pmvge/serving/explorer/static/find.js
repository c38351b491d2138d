// A box that finds entities by a part of their id or name: a combobox with a list of options.

import { api, OtherModel } from "./api.js";
import { announce, debounce, h, plural, title } from "./dom.js";
import { icon } from "./colors.js";

let made = 0;

// Return a labelled box. `view` limits it to one view; `pick` is called with the chosen entity.
export function finder({ label, view = null, pick, context, placeholder = "" }) {
  const id = `find-${++made}`;
  const list = h("ul", { role: "listbox", id: `${id}-list`, "aria-label": label, hidden: true });
  const input = h("input", {
    id, type: "search", role: "combobox", autocomplete: "off", spellcheck: "false", placeholder,
    "aria-expanded": "false", "aria-controls": `${id}-list`, "aria-autocomplete": "list", maxlength: 200,
  });
  let found = [];
  let active = -1;
  let asked = 0;

  function show(open) {
    list.hidden = !open;
    input.setAttribute("aria-expanded", String(open));
    if (!open) input.removeAttribute("aria-activedescendant");
  }

  function activate(at) {
    active = at;
    [...list.children].forEach((option, index) => option.setAttribute("aria-selected", String(index === at)));
    if (at < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", `${id}-${at}`);
    return list.children[at].scrollIntoView({ block: "nearest" });
  }

  function choose(at) {
    const one = found[at];
    if (!one) return;
    show(false);
    input.value = "";
    pick(one);
  }

  function fill(answer, text) {
    found = answer.found;
    const views = context().views;
    list.replaceChildren(...found.map((one, at) => {
      const kind = views.findIndex((entry) => entry.view === one.view);
      return h("li", { role: "option", id: `${id}-${at}`, "aria-selected": "false",
        onmousedown: (event) => event.preventDefault(), onclick: () => choose(at) },
        icon(kind, `var(--c${(kind + 2) % 10})`), h("span", {}, title(one, 60)), h("small", { class: "kind-of" }, one.view));
    }));
    if (!found.length) list.append(h("li", { class: "none", role: "option", "aria-disabled": "true", "aria-selected": "false" }, `Nothing contains “${text.slice(0, 40)}”.`));
    show(true);
    activate(found.length ? 0 : -1);
    announce(found.length ? `${plural(found.length, "entity")} found${answer.more ? ", and more" : ""}` : "Nothing found");
  }

  const search = debounce(150, async () => {
    const text = input.value.trim();
    const number = ++asked;
    if (!text) return show(false);
    try {
      const answer = await api.ask("explore/find", { text, view, limit: 12 });
      if (number === asked && input.value.trim() === text) fill(answer, text);
    } catch (error) {
      if (!(error instanceof OtherModel)) announce(error.message);
    }
    return undefined;
  });

  input.addEventListener("input", search);
  input.addEventListener("focus", () => input.value.trim() && search());
  input.addEventListener("blur", () => setTimeout(() => show(false), 100));
  input.addEventListener("keydown", (event) => {
    const last = found.length - 1;
    if (event.key === "ArrowDown" && !list.hidden && found.length) activate(active < last ? active + 1 : 0);
    else if (event.key === "ArrowUp" && !list.hidden && found.length) activate(active > 0 ? active - 1 : last);
    else if (event.key === "Enter" && !list.hidden) choose(active);
    else if (event.key === "Escape" && !list.hidden) show(false);
    else return;
    event.preventDefault();
  });
  return h("div", { class: "finder" }, h("label", { for: id }, label), input, list);
}
