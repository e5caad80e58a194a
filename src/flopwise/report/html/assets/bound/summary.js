"use strict";
// What the page is about, its figures and its notes; how times are written, and which colour an operator has.
flopwise.bound = (() => {
  const { data, make, count } = flopwise;
  const rows = data.layers;

  // Three significant digits in the unit that suits.
  function time(nanoseconds) {
    if (nanoseconds === null || nanoseconds === undefined) return "?";
    const [size, unit] = nanoseconds >= 1e9 ? [1e9, "s"] : nanoseconds >= 1e6 ? [1e6, "ms"] : nanoseconds >= 1e3 ? [1e3, "µs"] : [1, "ns"];
    const value = nanoseconds / size;
    return `${value >= 100 ? Math.round(value) : Number(value.toPrecision(3))} ${unit}`;
  }

  // The time that a dot and a line stand for: measured alone, else the roofline.
  const taken = d3.range(count).map((i) => rows.time[i] ?? rows.roofline[i]);
  const totals = d3.rollups(d3.range(count), (list) => d3.sum(list, (i) => taken[i] ?? 0), (i) => rows.op[i]).sort((a, b) => b[1] - a[1]);
  const shades = new Map(totals.slice(0, 7).map(([op], place) => [op, flopwise.series(place)]));
  const shade = (op) => shades.get(op) ?? flopwise.series(-1);

  flopwise.introduce(data.model, data.device, data.summary, data.notes);
  return { rows, taken, totals, shades, shade, time };
})();
