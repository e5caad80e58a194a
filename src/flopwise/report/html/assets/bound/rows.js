"use strict";
// The table: a line for each layer, sorted by a click on a title.
(() => {
  const { data, count, make, on, choose, human, state, time } = flopwise;
  const { rows } = flopwise.roofed;
  const columns = [
    { title: "layer", key: "name", text: (i) => rows.name[i] },
    { title: "operator", key: "op", text: (i) => rows.op[i] },
    { title: "roof", key: "roof", text: (i) => rows.roof[i] },
    ...(data.measured ? [{ title: "alone", key: "time", text: (i) => time(rows.time[i]), figure: true }] : []),
    { title: "roofline", key: "roofline", text: (i) => time(rows.roofline[i]), figure: true },
    { title: "floor", key: "physical", text: (i) => time(rows.physical[i]), figure: true },
    { title: "FLOPs", key: "flops", text: (i) => human(rows.flops[i]), figure: true },
    { title: "bytes", key: "bytes", text: (i) => human(rows.bytes[i], "B"), figure: true },
    { title: "status", key: "status", text: (i) => rows.status[i] },
    ...(data.measured ? [{ title: "does the work of", key: "work", text: (i) => rows.work[i] }] : []),
  ];
  let order = { key: null, turned: false };
  const body = document.getElementById("rows-body");
  const lines = d3.range(count).map((i) => make("tr", { onclick: () => choose(i, "rows") }, ...columns.map((column) => make("td", { class: column.figure ? "figure" : column.key === "name" ? "name" : null, title: column.key === "name" ? rows.name[i] : null }, column.text(i)))));

  function sort(column) {
    order = { key: column.key, turned: order.key === column.key && !order.turned };
    const value = (i) => rows[column.key][i];
    const sorted = d3.range(count).sort((a, b) => (column.figure ? (value(b) ?? Infinity) - (value(a) ?? Infinity) : String(value(a)).localeCompare(String(value(b)))));
    if (order.turned) sorted.reverse();
    body.replaceChildren(...sorted.map((i) => lines[i]));
  }
  document.getElementById("rows-head").append(make("tr", {}, ...columns.map((column) => make("th", { class: column.figure ? "figure" : null, scope: "col" }, make("button", { type: "button", onclick: () => sort(column) }, column.title)))));
  body.append(...lines);
  flopwise.cue(document.querySelector(".scroll-rows"));
  on("choose", (layer, from) => {
    lines.forEach((line, i) => line.classList.toggle("on", i === state.chosen));
    if (from !== "rows") lines[layer]?.scrollIntoView({ block: "center" });
  });
})();
