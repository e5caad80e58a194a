"use strict";
// What each operator adds up to; also the key to the colours.
(() => {
  const { data, make, number, human, percent, measures, noun } = flopwise;
  const MOST = 14;

  function draw() {
    const measure = flopwise.state.measure;
    const unit = measures[measure].unit();
    const values = flopwise.values();
    const whole = flopwise.total();
    const found = data.ops.map((name, op) => ({ name, op, value: 0, layers: 0, unknown: 0 }));
    data.layers.op.forEach((op, layer) => {
      found[op].value += number(values[layer]);
      found[op].layers++;
      found[op].unknown += flopwise.unknown(values[layer]) ? 1 : 0;
    });
    found.sort((a, b) => b.value - a.value || b.unknown - a.unknown || b.layers - a.layers);
    const largest = found.length ? found[0].value : 0;
    const line = (entry, colour, click) => {
      const share = whole ? 100 * entry.value / whole : 0;
      const fill = make("div", { class: "fill" });
      fill.style.width = `${largest ? 100 * entry.value / largest : 0}%`;
      fill.style.background = colour;
      if (!entry.value) fill.style.display = "none";
      const swatch = make("i", { class: "dot" });
      swatch.style.background = colour;
      const figure = entry.unknown ? (entry.unknown === entry.layers ? "?" : `≥ ${human(Math.round(entry.value), unit)}`) : human(Math.round(entry.value), unit);
      return [
        make(click ? "button" : "span", { class: "op", type: click ? "button" : null, title: click ? `Show the layers with ${entry.name}` : null, onclick: click || (() => {}) }, swatch, entry.name, " ", make("span", { class: "muted" }, `×${entry.layers.toLocaleString("en-US")}`)),
        make("div", { class: "track" }, fill),
        make("span", { class: "num" }, figure),
        make("span", { class: "num muted" }, entry.unknown === entry.layers ? "?" : percent(share)),
      ];
    };
    const shown = found.slice(0, found.length > MOST + 1 ? MOST : found.length);
    const rest = found.slice(shown.length);
    const cells = shown.flatMap((entry) => line(entry, flopwise.colours[entry.op], () => flopwise.emit("filter-op", entry.op)));
    if (rest.length) {
      const all = { name: noun(rest.length, "other operator"), value: d3.sum(rest, (r) => r.value), layers: d3.sum(rest, (r) => r.layers), unknown: d3.sum(rest, (r) => r.unknown) };
      cells.push(...line(all, "var(--op-rest)", null));
    }
    document.getElementById("operator-bars").replaceChildren(make("div", { class: "bars" }, ...cells));
    document.getElementById("operators-sub").textContent = measures[measure].title();
  }

  flopwise.on("counts", draw);
  draw();
})();
