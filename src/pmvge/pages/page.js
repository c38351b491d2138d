(() => {
  "use strict";
  const darkTheme = matchMedia("(prefers-color-scheme: dark)");
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const darkColors = read("palette");
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Figures use the colours of a light page, some with two digits for opacity. Look up the colour
  // of the current theme; other colours stay as they are.
  const themed = (color) =>
    darkTheme.matches ? (darkColors[color.slice(0, 7)] ?? color.slice(0, 7)) + color.slice(7) : color;
  const inTheme = (key, value) =>
    (key === "color" || key === "fillcolor") && typeof value === "string" ? themed(value) : value;

  // Add to a figure's layout what all figures share: fonts, grid lines, background, legend.
  function layoutOf(layout) {
    const ink = variable("--ink"), soft = variable("--soft"), line = variable("--line");
    const axis = (own) => ({
      gridcolor: line, linecolor: line, zeroline: false, automargin: true,
      fixedrange: layout.dragmode === undefined,
      // plotly.js draws powers of ten larger than other ticks.
      tickfont: { color: soft, size: own.type === "log" && !own.ticktext ? 9 : 11 }, ...own,
      title: { font: { color: soft, size: 12 }, ...own.title },
    });
    const names = new Set(["xaxis", "yaxis"]);
    for (const name of Object.keys(layout)) if (/^[xy]axis\d*$/.test(name)) names.add(name);
    const axes = Object.fromEntries([...names].map((name) => [name, axis(layout[name] ?? {})]));
    return {
      margin: { l: 8, r: 14, t: 10, b: 8 }, showlegend: false, ...layout, ...axes, autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      colorway: Object.keys(darkColors).map(themed),
      font: { family: variable("--font"), color: soft, size: 12 },
      legend: {
        orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0,
        font: { color: ink, size: 12 }, ...layout.legend,
      },
      dragmode: matchMedia("(pointer: coarse)").matches ? false : (layout.dragmode ?? false),
      modebar: { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: ink },
      hoverlabel: {
        bgcolor: variable("--card"), bordercolor: line, align: "left",
        font: { family: variable("--font"), color: ink, size: 12 },
      },
    };
  }

  function draw(element) {
    const figure = JSON.parse(element.querySelector("script").textContent, inTheme);
    const canvas = element.querySelector(".canvas");
    const isMap = element.id === "map";
    const traces = isMap ? colored(figure.data) : figure.data;
    return Plotly.react(canvas, traces, layoutOf(figure.layout), {
      responsive: true, displaylogo: false, scrollZoom: false, doubleClick: isMap ? "reset" : false,
      displayModeBar: isMap && !matchMedia("(pointer: coarse)").matches,
      modeBarButtons: [["zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
    });
  }

  // -- the map: colour by view or by a label, hide views, highlight one category ---------------

  const space = document.getElementById("map");
  const colorings = space ? read("colorings") : [];
  const state = { coloring: colorings.length ? 0 : -1, hidden: new Set(), highlighted: null };

  function colored(traces) {
    const background = variable("--card");
    const scale = Math.min(1, Math.max(0.6, space.clientWidth / 800)); // smaller points on phones
    return traces.map((trace, view) => {
      const line = { ...trace.marker.line, color: background };
      const marker = { ...trace.marker, size: trace.marker.size * scale, line };
      if (state.coloring >= 0) {
        const { codes, colors } = colorings[state.coloring];
        marker.color = codes[view].map((code) => themed(colors[code]));
        if (state.highlighted !== null) {
          marker.opacity = codes[view].map((code) => (code === state.highlighted ? 0.95 : 0.06));
        }
      }
      return { ...trace, marker, visible: !state.hidden.has(view) };
    });
  }

  function setPressed(button, value) {
    button.setAttribute("aria-pressed", String(value));
  }

  function refresh() {
    for (const button of space.querySelectorAll("[data-coloring]")) {
      setPressed(button, Number(button.dataset.coloring) === state.coloring);
    }
    for (const button of space.querySelectorAll("[data-view]")) {
      setPressed(button, !state.hidden.has(Number(button.dataset.view)));
    }
    for (const legend of space.querySelectorAll("[data-legend]")) {
      legend.hidden = Number(legend.dataset.legend) !== state.coloring;
    }
    for (const button of space.querySelectorAll("[data-category]")) {
      setPressed(button, state.highlighted === null || state.highlighted === Number(button.dataset.category));
    }
    space.classList.toggle("by-label", state.coloring >= 0);
    return draw(space);
  }

  space?.addEventListener("click", (event) => {
    const { coloring, view, category } = event.target.closest("button")?.dataset ?? {};
    if (coloring !== undefined) {
      state.coloring = Number(coloring);
      state.highlighted = null;
    } else if (view !== undefined) {
      const index = Number(view);
      if (!state.hidden.delete(index)) state.hidden.add(index);
    } else if (category !== undefined) {
      state.highlighted = state.highlighted === Number(category) ? null : Number(category);
    } else {
      return;
    }
    refresh();
  });

  // plotly.js is in the page as base64 of gzip. The policy of the page lists its hash.
  async function loadPlotly() {
    const packed = document.getElementById("plotly");
    if (!packed || window.Plotly) return;
    if (!window.DecompressionStream) throw new Error("this browser is too old for the figures");
    const bytes = Uint8Array.from(atob(packed.textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    packed.remove();
  }

  // Draw one figure at a time and yield in between, so that the page stays responsive.
  async function drawAll() {
    document.body.dataset.drawn = "no";
    await loadPlotly();
    for (const element of document.querySelectorAll(".figure")) {
      await draw(element);
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
    document.body.dataset.drawn = "yes";
  }
  darkTheme.addEventListener("change", drawAll);
  drawAll();
})();
