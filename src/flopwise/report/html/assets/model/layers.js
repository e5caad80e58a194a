"use strict";
// The table of layers.
(() => {
  const { data, count, make, number, unknown, exact, percent, added, colourOf, opOf, kindOf, shapesOf, noun, groups, repeats, partsOf, single, intensity } = flopwise;
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
  const together = (item, values) => (item.layers.some((i) => unknown(values[i])) ? Infinity : d3.sum(item.layers, (i) => number(values[i])));
  const figure = (key, title, values = () => L[key]) => {
    const foot = (layers) => added(layers.map((i) => values()[i]));
    return {
      key, title: () => title, kind: "num", value: (i) => values()[i], text: (i) => exact(values()[i]),
      tip: (i) => why(exact(values()[i]), i), foot, group: (item) => foot(item.layers), size: (item) => together(item, values()),
    };
  };
  // In a row for several layers that are alike the words of one, in that of a module none.
  const words = (key, title, value) => ({ key, title: () => title, kind: "text", value, text: value, first: "ascending", words: true, group: (item) => (item.layer === undefined ? "" : value(item.layer)) });
  // The share of layers, as a bar beside the figure.
  function meter(layers, kind) {
    const value = d3.sum(layers, (i) => number(counts()[i])), whole = flopwise.total("count");
    const bar = make("i", {});
    bar.style.width = `${largest ? Math.min(100, Math.max(0, (100 * value) / largest)) : 0}%`;
    bar.style.background = flopwise.colour(kind);
    const part = layers.every((i) => counts()[i] === "") ? "–" : layers.some((i) => unknown(counts()[i])) ? "?" : percent(whole ? (100 * value) / whole : 0);
    return make("span", {}, bar, make("b", {}, part));
  }
  function perByte(layers) {
    const value = intensity(layers);
    return value === null ? "?" : value >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));
  }

  // What repeats, as rows that open into modules and layers of one turn.
  const items = [], itemOf = new Map();
  function itemFor(part, around, depth) {
    const alone = part.group === undefined ? part.layer : single(part.group);
    const item = { index: items.length, around, depth, inner: [], layer: alone >= 0 ? alone : undefined };
    items.push(item);
    const group = groups[part.group];
    if (item.layer !== undefined) {
      item.layers = flopwise.layersOf(item.layer);
      item.many = item.layers.length;
      item.name = group ? group.name : flopwise.brief(item.layer);
      item.title = L.name[item.layer] + (item.many > 1 ? ` and ${item.many - 1} like it` : "");
      item.kind = L.kind[item.layer];
      item.layers.forEach((layer) => itemOf.set(layer, item));
      return item;
    }
    item.inner = partsOf(part.group).map((inner) => itemFor(inner, item, depth + 1));
    item.layers = item.inner.flatMap((inner) => inner.layers).sort((a, b) => a - b);
    item.name = group.name;
    item.title = [group.name, group.kind].filter(Boolean).join(", ");
    item.kind = d3.greatest(d3.rollup(item.layers, (list) => d3.sum(list, (i) => number(L.flops[i])), (i) => L.kind[i]), ([, value]) => value)[0];
    item.class = group.period ? "" : group.kind;
    return item;
  }
  const inRepeat = (group) => { for (let at = group.parent; at >= 0; at = groups[at].parent) if (groups[at].period) return true; return false; };
  const roots = repeats.filter((group) => !inRepeat(group)).map((group) => itemFor({ group: group.index }, null, 0));

  let largest = 0;
  const columns = [
    { key: "index", title: () => "#", kind: "num muted", value: (i) => i, text: (i) => String(i + 1), first: "ascending", group: (item) => String(item.layers[0] + 1), size: (item) => item.layers[0] },
    { ...words("name", "layer", (i) => L.name[i]), kind: "text name", room: modules ? 28 : 40, group: (item) => item.name },
    { ...words("op", "op", opOf), room: 24, dot: colourOf, group: (item) => (item.layer === undefined ? item.class : opOf(item.layer)) },
    words("kind", "kind", kindOf),
    modules && { ...words("scope", "module", (i) => L.scope[i] || ""), kind: "text muted scope", room: 26 },
    {
      key: "outputs", title: () => "output", kind: "text", room: 26, value: (i) => number(L.activations[i]), text: (i) => shapesOf(L.outputs[i]), none: (i) => unknown(L.activations[i]),
      group: (item) => (item.layer === undefined ? "" : shapesOf(L.outputs[item.layer])), size: (item) => together(item, L.activations),
    },
    timed && { key: "times", title: () => "runs", kind: "num", value: (i) => (i in L.times ? L.times[i] : 1), text: (i) => (i in L.times ? exact(L.times[i]) : "1"), group: (item) => (item.layer in L.times ? exact(L.times[item.layer]) : ""), size: (item) => number(L.times[item.layer] ?? 0) },
    figure("params", "params"),
    { ...figure("macs", "MACs"), hidden: () => flopwise.convention().name === "macs" },
    { ...figure("count", "", counts), title: () => flopwise.counted(flopwise.convention()) },
    { key: "share", title: () => "% of all", kind: "num meter", value: (i) => counts()[i], fill: (i) => meter([i], L.kind[i]), group: (item) => meter(item.layers, item.kind), size: (item) => together(item, counts()) },
    trained && figure("backward_macs", "backward MACs"),
    trained && figure("backward_flops", "backward FLOPs"),
    trained && { ...figure("backward", "", backward), title: () => `backward ${flopwise.counted(flopwise.convention())}`, hidden: () => !own() },
    figure("weight_bytes", "weight bytes"),
    figure("output_bytes", "output bytes"),
    { key: "intensity", title: () => "FLOP / byte", about: "Floating-point operations for each byte of inputs, weights and outputs", kind: "num", value: (i) => intensity([i]), text: (i) => perByte([i]), foot: perByte, group: (item) => perByte(item.layers), size: (item) => intensity(item.layers) ?? Infinity },
    trained && figure("saved_bytes", "saved bytes"),
  ].filter(Boolean);

  const texts = L.name.map((name, i) => `${name}\n${opOf(i)}\n${L.scope[i] || ""}\n${kindOf(i)}`.toLowerCase());
  const filters = flopwise.filters(texts, () => table.again());
  const table = flopwise.table({
    box: document.getElementById("table"), name: "Layers", columns: () => columns, fits: filters.fits,
    tree: { folded: () => flopwise.state.fold && roots.length > 0, items, roots, of: (layer) => itemOf.get(layer) },
    total: (layers) => (layers.length === count ? "Total" : `Total of ${noun(layers.length, "layer")}`),
    empty: () => (count ? "No layer fits the filter." : "The model has no layers."),
    enter: (layer) => flopwise.emit("show-graph", layer),
    drawn: (layers, printed) => {
      document.getElementById("layers-sub").textContent = (layers.length === count ? noun(count, "layer") : `${layers.length.toLocaleString("en-US")} of ${noun(count, "layer")}`) + printed;
    },
  });
  function draw() {
    largest = d3.max(counts(), number) || 0;
    table.draw();
  }
  const clear = () => { filters.set(""); table.draw(); };
  const filtered = (op, kind) => {
    filters.set(op, kind);
    table.again("count");
    document.getElementById("layers").scrollIntoView();
  };

  document.getElementById("filter-clear").addEventListener("click", clear);
  flopwise.on("counts", draw);
  flopwise.on("filter-op", (op) => filtered(op, ""));
  flopwise.on("filter-kind", (kind) => filtered("", kind));
  flopwise.on("show-table", (layer) => {
    if (!table.shows(layer)) clear();
    table.openTo(layer);
    document.getElementById("layers").scrollIntoView();
    table.bring(layer, true);
  });
  draw();
})();
