"use strict";
// Tables that sort and filter, each drawn as far as it is looked at.
(() => {
  const { data, make, number, unknown, exact, human, percent, noun } = flopwise;
  const STEP = 100;
  const titles = { macs: "MACs", flops: "FLOPs", params: "parameters", ops: "operators", op: "operator", macs_percent: "% of MACs", saved_bytes: "bytes that fusion saves", peak_activation_bytes: "peak activations", weight_bytes: "weight bytes" };
  const bytes = new Set(["saved_bytes", "peak_activation_bytes", "weight_bytes"]);
  const short = new Set(["macs", "flops", "params", ...bytes]);
  const whole = new Set(["error", "ops", "attributes"]);

  function text(key, value) {
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (unknown(value)) return key === "year" ? "–" : "?";
    if (key === "macs_percent") return percent(value);
    if (key === "seconds") return `${value.toFixed(1)} s`;
    if (key === "year") return String(value);
    if (short.has(key)) return human(value, bytes.has(key) ? "B" : "");
    return typeof value === "number" || /^-?\d{16,}$/.test(value) ? exact(value) : String(value);
  }

  function panel(name, title, sub, table) {
    if (!table.rows.length) return null;
    const figures = table.columns.map((key, place) => table.rows.some((row) => typeof row[place] === "number") || short.has(key));
    const search = make("input", { type: "search", placeholder: "Filter", autocomplete: "off", "aria-label": `Filter: ${title}` });
    const body = make("tbody", {}), head = make("tr", {}), more = make("p", { class: "hint" });
    const texts = table.rows.map((row) => row.join(" ").toLowerCase());
    let sorting = { place: -1, descending: false }, shown = STEP;

    function order() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const rows = d3.range(table.rows.length).filter((i) => words.every((word) => texts[i].includes(word)));
      const { place, descending } = sorting;
      if (place < 0) return rows;
      const value = (i) => table.rows[i][place];
      const way = descending ? -1 : 1;
      // What is unknown comes last, either way.
      return rows.sort((a, b) => unknown(value(a)) - unknown(value(b)) || way * (figures[place] ? number(value(a)) - number(value(b)) || value(a) - value(b) : d3.ascending(String(value(a)).toLowerCase(), String(value(b)).toLowerCase())) || a - b);
    }
    function draw() {
      const rows = order();
      head.replaceChildren(...table.columns.map((key, place) => make("th", { scope: "col", class: figures[place] ? "figure" : null, "aria-sort": sorting.place !== place ? "none" : sorting.descending ? "descending" : "ascending" }, make("button", {
        type: "button", onclick: () => { sorting = { place, descending: sorting.place === place ? !sorting.descending : figures[place] }; shown = STEP; draw(); head.children[place].firstChild.focus(); },
      }, titles[key] ?? key.replaceAll("_", " ")))));
      body.replaceChildren(...rows.slice(0, shown).map((i) => make("tr", {}, ...table.rows[i].map((value, place) => {
        const key = table.columns[place], cell = text(key, value);
        const full = typeof value === "string" && !short.has(key) ? value : short.has(key) && !unknown(value) ? exact(value) : null;
        return make("td", { class: figures[place] ? "figure" : whole.has(key) ? "whole" : null, title: full }, cell);
      }))));
      more.replaceChildren(`${exact(Math.min(shown, rows.length))} of ${noun(rows.length, "line")}. `);
      if (rows.length > shown) more.append(make("button", { type: "button", onclick: () => { shown += 5 * STEP; draw(); } }, "Show more"));
    }
    search.addEventListener("input", () => { shown = STEP; draw(); });
    draw();
    return make("section", { class: "panel", id: `table-${name}`, "aria-label": title }, make("header", {}, make("h2", {}, title), make("p", { class: "sub" }, sub)), make("div", { class: "tools" }, make("label", { class: "search" }, search)), make("div", { class: "scroll-rows", tabindex: "0" }, make("table", { class: "rows" }, make("thead", {}, head), body)), more);
  }
  document.getElementById("tables-all").append(...[
    panel("models", "Models", "Click a title to sort.", data.models),
    panel("unique", "Unique layers", "The most frequent: operator, shapes, types and attributes, in how many layers and models, and their share of all MACs.", data.tables.unique),
    panel("chains", "Chains", "Operators that follow each other, each the only user of the result before, and the bytes that fusing them saves.", data.tables.chains),
    panel("census", "Operators", "All operators of the data set.", data.tables.census),
    panel("failures", "Failures", "Models that could not be profiled, and why.", data.tables.failures),
  ].filter(Boolean));
})();
