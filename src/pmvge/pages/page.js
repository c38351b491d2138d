(() => {
  "use strict";
  const darkness = matchMedia("(prefers-color-scheme: dark)");
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const darker = read("palette");
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Figures come in the colours of a light page; the last two digits may be an opacity.
  const themed = (color) =>
    darkness.matches ? (darker[color.slice(0, 7)] ?? color.slice(0, 7)) + color.slice(7) : color;
  const inTheme = (key, value) =>
    (key === "color" || key === "fillcolor") && typeof value === "string" ? themed(value) : value;

  function layoutOf(layout) {
    const ink = variable("--ink"), soft = variable("--soft"), line = variable("--line");
    const axis = (own) => ({
      gridcolor: line, linecolor: line, zeroline: false, automargin: true,
      // plotly.js writes powers of ten larger than other ticks.
      tickfont: { color: soft, size: own.type === "log" && !own.ticktext ? 9 : 11 }, ...own,
      title: { font: { color: soft, size: 12 }, ...own.title },
    });
    return {
      margin: { l: 8, r: 14, t: 10, b: 8 }, ...layout, autosize: true, showlegend: false,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: variable("--font"), color: soft, size: 12 },
      xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis),
      dragmode: matchMedia("(pointer: coarse)").matches ? false : (layout.dragmode ?? false),
      modebar: { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: ink },
      hoverlabel: {
        bgcolor: variable("--card"), bordercolor: line, align: "left",
        font: { family: variable("--font"), color: ink, size: 12 },
      },
    };
  }

  function draw(place) {
    const figure = JSON.parse(place.querySelector("script").textContent, inTheme);
    const canvas = place.querySelector(".canvas");
    const isMap = place.id === "map";
    const traces = isMap ? colored(figure.data) : figure.data;
    return Plotly.react(canvas, traces, layoutOf(figure.layout), {
      responsive: true, displaylogo: false, scrollZoom: false, doubleClick: isMap ? "reset" : false,
      displayModeBar: isMap && !matchMedia("(pointer: coarse)").matches,
      modeBarButtons: [["zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
    });
  }

  // -- the map: colour by view or by a label, hide views, light up one category ----------------

  const space = document.getElementById("map");
  const colorings = space ? read("colorings") : [];
  const state = { coloring: -1, hidden: new Set(), lit: null };

  function colored(traces) {
    const page = variable("--card");
    const scale = Math.min(1, Math.max(0.6, space.clientWidth / 800)); // smaller points on a phone
    return traces.map((trace, view) => {
      const line = { ...trace.marker.line, color: page };
      const marker = { ...trace.marker, size: trace.marker.size * scale, line };
      if (state.coloring >= 0) {
        const { codes, colors } = colorings[state.coloring];
        marker.color = codes[view].map((code) => themed(colors[code]));
        if (state.lit !== null) {
          marker.opacity = codes[view].map((code) => (code === state.lit ? 0.95 : 0.06));
        }
      }
      return { ...trace, marker, visible: !state.hidden.has(view) };
    });
  }

  function pressed(button, value) {
    button.setAttribute("aria-pressed", String(value));
  }

  function refresh() {
    for (const button of space.querySelectorAll("[data-coloring]")) {
      pressed(button, Number(button.dataset.coloring) === state.coloring);
    }
    for (const button of space.querySelectorAll("[data-view]")) {
      pressed(button, !state.hidden.has(Number(button.dataset.view)));
    }
    for (const key of space.querySelectorAll("[data-key]")) {
      key.hidden = Number(key.dataset.key) !== state.coloring;
    }
    for (const button of space.querySelectorAll("[data-category]")) {
      pressed(button, state.lit === null || state.lit === Number(button.dataset.category));
    }
    space.classList.toggle("by-label", state.coloring >= 0);
    return draw(space);
  }

  space?.addEventListener("click", (event) => {
    const { coloring, view, category } = event.target.closest("button")?.dataset ?? {};
    if (coloring !== undefined) {
      state.coloring = Number(coloring);
      state.lit = null;
    } else if (view !== undefined) {
      const number = Number(view);
      if (!state.hidden.delete(number)) state.hidden.add(number);
    } else if (category !== undefined) {
      state.lit = state.lit === Number(category) ? null : Number(category);
    } else {
      return;
    }
    refresh();
  });

  // One figure at a time, so that the page can be read while the others are drawn.
  async function drawAll() {
    document.body.dataset.drawn = "no";
    for (const place of document.querySelectorAll(".figure")) {
      await draw(place);
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
    document.body.dataset.drawn = "yes";
  }
  darkness.addEventListener("change", drawAll);
  drawAll();
})();
