"use strict";
// The table of layers.
(() => {
  const { data, count, make, number, unknown, exact, percent, added, colourOf, opOf, shapesOf, noun } = flopwise;
  const L = data.layers;
  // Names that are paths hold their module and need no column beside them.
  const modules = Object.keys(L.scope).some((i) => !L.name[i].includes("/"));
  const timed = Object.keys(L.times).length > 0;
  const trained = !!data.training;

  const counts = () => flopwise.convention().counts;
  // What the convention itself says of the backward pass, where that is not in the other columns.
  const backward = () => flopwise.convention().backward || [];
  const own = () => backward().length > 0 && !["flops", "macs"].includes(flopwise.convention().name);
  const why = (text, i) => (text === "?" ? L.note[i] || "unknown" : null);
  const figure = (key, title, values = () => L[key]) => ({
    key, title: () => title, kind: "num", value: (i) => values()[i], text: (i) => exact(values()[i]),
    tip: (i) => why(exact(values()[i]), i), foot: (order) => added(order.map((i) => values()[i])),
  });
  const words = (key, title, value) => ({ key, title: () => title, kind: "text", value, text: value, first: "ascending", words: true });
  // The share of a layer, as a bar beside the figure.
  function meter(i) {
    const bar = make("i", {});
    bar.style.width = `${largest ? Math.max(0, (100 * number(counts()[i])) / largest) : 0}%`;
    return make("span", {}, bar, make("b", {}, counts()[i] === "" ? "–" : percent(flopwise.share(i, "count"))));
  }
  let largest = 0;
  const columns = [
    { key: "index", title: () => "#", kind: "num muted", value: (i) => i, text: (i) => String(i + 1), first: "ascending" },
    { ...words("name", "layer", (i) => L.name[i]), kind: "text name", room: modules ? 28 : 40 },
    { ...words("op", "op", opOf), dot: colourOf },
    modules && { ...words("scope", "module", (i) => L.scope[i] || ""), kind: "text muted scope", room: 26 },
    { key: "outputs", title: () => "output", kind: "text", value: (i) => number(L.activations[i]), text: (i) => shapesOf(L.outputs[i]), none: (i) => unknown(L.activations[i]) },
    timed && { key: "times", title: () => "runs", kind: "num", value: (i) => (i in L.times ? L.times[i] : 1), text: (i) => (i in L.times ? exact(L.times[i]) : "1") },
    figure("params", "params"),
    { ...figure("macs", "MACs"), hidden: () => flopwise.convention().name === "macs" },
    { ...figure("count", "", counts), title: () => flopwise.counted(flopwise.convention()) },
    { key: "share", title: () => "% of all", kind: "num meter", value: (i) => counts()[i], fill: meter },
    trained && figure("backward_macs", "backward MACs"),
    trained && figure("backward_flops", "backward FLOPs"),
    trained && { ...figure("backward", "", backward), title: () => `backward ${flopwise.counted(flopwise.convention())}`, hidden: () => !own() },
    figure("weight_bytes", "weight bytes"),
    figure("output_bytes", "output bytes"),
    trained && figure("saved_bytes", "saved bytes"),
  ].filter(Boolean);

  const texts = L.name.map((name, i) => `${name}\n${opOf(i)}\n${L.scope[i] || ""}`.toLowerCase());
  const filters = flopwise.filters(texts, () => table.again());
  const table = flopwise.table({
    box: document.getElementById("table"), name: "Layers", columns: () => columns, fits: filters.fits,
    total: (order) => (order.length === count ? "Total" : `Total of ${noun(order.length, "layer")}`),
    empty: () => (count ? "No layer fits the filter." : "The model has no layers."),
    enter: (layer) => flopwise.emit("show-graph", layer),
    drawn: (order, printed) => {
      document.getElementById("layers-sub").textContent = (order.length === count ? noun(count, "layer") : `${order.length.toLocaleString("en-US")} of ${noun(count, "layer")}`) + printed;
    },
  });
  function draw() {
    largest = d3.max(counts(), number) || 0;
    table.draw();
  }
  const clear = () => { filters.set(""); table.draw(); };

  document.getElementById("filter-clear").addEventListener("click", clear);
  flopwise.on("counts", draw);
  flopwise.on("filter-op", (op) => {
    filters.set(op);
    table.again("count");
    document.getElementById("layers").scrollIntoView();
  });
  flopwise.on("show-table", (layer) => {
    if (!table.shows(layer)) clear();
    document.getElementById("layers").scrollIntoView();
    table.bring(layer, true);
  });
  draw();
})();
