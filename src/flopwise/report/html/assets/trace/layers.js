"use strict";
// The table of layers, segments and the remainder, in the columns of the report.
(() => {
  const { data, count, make, number, unknown, noun, colour, opOf, cellText } = flopwise;
  const L = data.layers, N = data.columns;
  const SUMS = ["launches", "flops", "forward", "backward", "time", "share"], TEXT = ["name", "op", "status"];
  const largest = d3.max(N.share, number) || 1;
  const total = (key, layers) => d3.sum(layers, (i) => number(N[key][i]));
  function meter(i) {
    const bar = make("i", {});
    bar.style.width = `${(100 * number(N.share[i])) / largest}%`;
    bar.style.background = colour(L.kind[i]);
    return make("span", {}, bar, make("b", {}, N.share[i] === "" ? "" : `${cellText(N.share[i], "percent")} %`));
  }
  const paths = d3.range(count).map((i) => flopwise.pathTo(L.group[i]).map((group) => group.name).join("."));
  const all = data.heads.filter(([key]) => !N[key] || N[key].some((value) => value !== "")).map(([key, title, kind]) => {
    const of = (i) => (key === "name" ? L.name[i] : key === "op" ? opOf(i) : N[key][i]);
    if (TEXT.includes(key)) return { key, title: () => title, kind: key === "name" ? "text name" : "text", value: of, text: of, first: "ascending", words: true, room: key === "name" ? 40 : 24, dot: key === "op" ? (i) => colour(L.kind[i]) : null };
    const text = (i) => cellText(of(i), kind);
    const made = { key, title: () => title, kind: "num", value: of, text, foot: SUMS.includes(key) ? (layers) => `${layers.some((i) => unknown(N[key][i])) ? "≥ " : ""}${cellText(total(key, layers), kind)}` : null };
    return key === "share" ? { ...made, title: () => "% of the trace", kind: "num meter", fill: meter, foot: (layers) => `${cellText(total(key, layers), kind)} %` } : made;
  });
  // With one pass, or one step, these say nothing else than the time does.
  const same = [...(N.backward.some(number) ? [] : ["forward"]), ...(data.steps.name.length > 1 ? [] : ["median"])];
  const order = ["name", "op", "time", "share", "forward", "backward", "median", "spread", "launches", "flops", "gflops", "gbytes", "time/floor", "status"];
  const columns = [
    { key: "index", title: () => "#", kind: "num muted", value: (i) => i, text: (i) => String(i + 1), first: "ascending" },
    ...order.flatMap((key) => all.filter((column) => column.key === key && !same.includes(key))),
  ];
  const texts = d3.range(count).map((i) => `${L.name[i]}\n${opOf(i)}\n${paths[i]}\n${(L.inside[i] || []).join(" ")}`.toLowerCase());
  const filters = flopwise.filters(texts, () => table.again());
  const table = flopwise.table({
    box: document.getElementById("table"), name: "Layers", columns: () => columns, fits: filters.fits,
    total: (layers) => (layers.length === count ? "Total" : `Total of ${noun(layers.length, "line")}`),
    empty: () => "No layer fits the filter.",
    enter: (layer) => flopwise.emit("show-timeline", layer),
    drawn: (layers, printed) => {
      document.getElementById("layers-sub").textContent = (layers.length === count ? noun(count, "line") : `${layers.length.toLocaleString("en-US")} of ${noun(count, "line")}`) + printed;
    },
  });
  const clear = () => { filters.set(""); table.draw(); };
  document.getElementById("filter-clear").addEventListener("click", clear);
  flopwise.on("show-table", (layer) => {
    if (!table.shows(layer)) clear();
    document.getElementById("layers").scrollIntoView();
    table.bring(layer, true);
  });
  table.draw();
})();
