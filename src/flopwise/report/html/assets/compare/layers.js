"use strict";
// The table of layers that belong together.
(() => {
  const { data, count, models, others, make, number, unknown, exact, sum, added, noun, title, gainsOf, rise, signed, shareText, way, values, opOf, nameOf, difference, apart } = flopwise;
  const L = data.layers;
  const kinds = document.getElementById("filter-kind");
  const named = ["structure", "weights", "order"];
  const anyMatched = L.ways.some((ways) => ways.some((at) => named.includes(data.ways[at])));
  const renamed = others.filter((model) => L.name[model.at].some((name, i) => typeof name === "string" && L.name[0][i] !== null));

  const words = (key, text, value) => ({ key, title: () => text, kind: "text", value, text: value, first: "ascending", words: true });
  const own = (i) => nameOf(i, 0) ?? "";
  const theirs = (model) => (i) => { const name = L.name[model.at][i]; return name === 0 ? "" : name ?? ""; };
  const matched = (i) => [...new Set(L.ways[i].map((at) => data.ways[at]).filter((text) => text && text !== "same"))].join(" ");
  const shapes = (i) => [...new Set(L.outputs[i].filter((at) => at >= 0).map((at) => data.shapes[at]))].join(" → ");
  const known = (list) => list.filter((value) => value !== "" && !unknown(value));

  // The difference of what the rows that are shown add up to; null when one is not known.
  function together(order, model, figure) {
    if (apart(figure, model.at)) return ["", ""];
    const pair = [0, model.at].map((at) => order.map((i) => values(at, figure)[i]));
    if (pair.flat().some((value) => unknown(value) || (typeof value === "string" && value !== "" && Number.isNaN(Number(value))))) return [null, null];
    const [first, other] = pair.map((list) => sum(known(list)).toString());
    return [first, difference(first, other)];
  }
  const mood = (list) => (i) => way(list()[i]);
  function columnsOf(figure) {
    return models.flatMap((model) => {
      const list = () => values(model.at, figure), more = () => gainsOf(model.at, figure);
      const size = (i) => { const found = more()[i]; return typeof found === "bigint" ? Number(found) : found; };
      const part = (i) => rise(values(0, figure)[i], more()[i]);
      const key = `${figure}:${model.at}`;
      const value = { key, title: () => `${title(figure, model)} ${model.letter}`, kind: "num", value: (i) => list()[i], text: (i) => exact(list()[i]), foot: (order) => added(order.map((i) => list()[i])) };
      if (!model.at) return [value];
      const share = (i) => (L.name[0][i] === null ? (L.name[model.at][i] === null ? "" : "new") : L.name[model.at][i] === null ? "gone" : shareText(part(i)));
      return [value, {
        key: `${key}:difference`, title: () => `${model.letter} − A`, kind: "num", value: size, least: -Infinity, text: (i) => signed(more()[i]), mood: mood(more),
        foot: (order) => signed(together(order, model, figure)[1]),
      }, {
        key: `${key}:percent`, title: () => "%", kind: "num", value: (i) => part(i) ?? (typeof more()[i] === "bigint" ? Infinity : ""), least: -Infinity, text: share, mood: mood(more),
        foot: (order) => shareText(rise(...together(order, model, figure))),
      }];
    });
  }
  // A bar to the right where there is more, to the left where there is less.
  let largest = 0;
  function meter(i) {
    const size = Number(typeof more()[i] === "bigint" ? more()[i] : 0);
    const bar = make("i", { class: size > 0 ? "more" : "less" });
    bar.style.width = `${largest ? (50 * Math.abs(size)) / largest : 0}%`;
    return make("span", {}, bar);
  }
  const more = () => gainsOf(flopwise.state.other);
  const bars = {
    key: "bar", title: () => `${models[flopwise.state.other].letter} − A`, about: "Sort by the size of the difference", kind: "num change",
    value: (i) => Math.abs(Number(typeof more()[i] === "bigint" ? more()[i] : 0)), none: (i) => unknown(more()[i]), fill: meter,
  };
  const fixed = [
    { key: "index", title: () => "#", kind: "num muted", value: (i) => i, text: (i) => String(i + 1), first: "ascending" },
    { ...words("name", "layer in A", own), kind: "text name", room: renamed.length ? 30 : 40 },
    ...others.filter((model) => L.name[model.at].some((name) => typeof name === "string")).map((model) => ({ ...words(`name:${model.at}`, `in ${model.letter}`, theirs(model)), kind: "text name", room: 30 })),
    words("op", "op", opOf),
    anyMatched && { ...words("ways", "matched by", matched), kind: "text muted" },
    { key: "outputs", title: () => "output", kind: "text", value: (i) => number(values(0, "activations")[i]), text: shapes, room: 34 },
  ].filter(Boolean);
  // The bars stand beside the difference that they show.
  const measured = () => { const all = columnsOf(flopwise.state.measure); all.splice(3 * flopwise.state.other + 1, 0, bars); return all; };
  const columns = () => [...fixed, ...measured(), ...data.shown.filter((figure) => figure !== flopwise.state.measure).flatMap(columnsOf)];

  const texts = d3.range(count).map((i) => [...models.map((model) => nameOf(i, model.at) || ""), opOf(i), shapes(i)].join("\n").toLowerCase());
  const choices = [
    ["all", "all", () => true],
    ["changed", "different", (i) => L.changed[i] === 1],
    ["same", "the same", (i) => L.changed[i] === 0],
    ...models.map((model) => [`only:${model.at}`, `only in ${model.letter}`, (i) => models.every((other) => (nameOf(i, other.at) === null) === (other !== model))]),
    ["more", "more than A", (i) => typeof more()[i] === "bigint" && more()[i] > 0n],
    ["less", "less than A", (i) => typeof more()[i] === "bigint" && more()[i] < 0n],
  ];
  function offer() {
    const before = kinds.value;
    kinds.replaceChildren(...choices.map(([key, text, fits]) => make("option", { value: key }, `${text} (${d3.range(count).filter(fits).length.toLocaleString("en-US")})`)));
    kinds.value = before || (!data.full && L.changed.some(Boolean) ? "changed" : "all");
  }
  const filters = flopwise.filters(texts, () => table.again());
  const table = flopwise.table({
    box: document.getElementById("table"), name: "Layers", columns: shownColumns(),
    fits: () => { const [one, other] = [filters.fits(), choices.find(([key]) => key === kinds.value)[2]]; return (i) => one(i) && other(i); },
    total: (order) => (order.length === count ? "Total" : `Total of ${noun(order.length, "layer")}`),
    empty: () => (count ? "No layer fits the filter." : "The models have no layers."),
    enter: () => document.getElementById("chosen").querySelector("button")?.focus(),
    drawn: (order, printed) => {
      document.getElementById("layers-sub").textContent = (order.length === count ? noun(count, "layer") : `${order.length.toLocaleString("en-US")} of ${noun(count, "layer")}`) + printed;
    },
  });
  // The columns stay the same until the measure changes.
  function shownColumns() {
    let made = null;
    flopwise.on("measure", () => { made = null; });
    return () => (made ||= columns());
  }
  function draw() {
    largest = d3.max(more(), (value) => Math.abs(Number(typeof value === "bigint" ? value : 0))) || 0;
    offer();
    table.draw();
  }
  kinds.addEventListener("change", () => table.again());
  document.getElementById("filter-clear").addEventListener("click", () => { filters.set(""); kinds.value = "all"; table.again(); });
  flopwise.on("measure", draw);
  flopwise.on("choose", (layer, from) => {
    if (from !== "depth" || layer < 0) return;
    if (!table.shows(layer)) { filters.set(""); kinds.value = "all"; table.draw(); }
    table.bring(layer);
  });
  flopwise.on("filter-op", (op) => {
    filters.set(op);
    kinds.value = "all";
    table.again();
    document.getElementById("layers").scrollIntoView();
  });
  draw();
})();
