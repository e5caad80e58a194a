"use strict";
// What the page is about, its figures and its notes; and which colour an operator has.
flopwise.roofed = (() => {
  const { data, count } = flopwise;
  const rows = data.layers;

  // The time that a dot and a line stand for: measured alone, else the roofline.
  const taken = d3.range(count).map((i) => rows.time[i] ?? rows.roofline[i]);
  const totals = d3.rollups(d3.range(count), (list) => d3.sum(list, (i) => taken[i] ?? 0), (i) => rows.op[i]).sort((a, b) => b[1] - a[1]);
  const shades = new Map(totals.slice(0, 7).map(([op], place) => [op, flopwise.series(place)]));
  const shade = (op) => shades.get(op) ?? flopwise.series(-1);

  flopwise.introduce(data.model, data.device, data.summary, data.notes);
  document.getElementById("waterfall-sub").textContent = data.measured ? "From the physical floor to the measured time: what each operator takes beyond its own floor, weights from beyond the caches, and the rest." : "From the physical floor to the rooflines of all layers added up, an estimate of a run in which nothing is fused.";
  return { rows, taken, shades, shade, says: (i) => rows.roof[i] };
})();
