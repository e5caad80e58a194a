"use strict";
// What the parts of the page of two traces share: which lines are shown, and how differences are written.
Object.assign(flopwise, (() => {
  const { data, count, state, emit, time } = flopwise;
  const L = data.layers;
  state.by = 0;
  const more = d3.range(count).map((i) => L.after[i] - L.before[i]);
  const signed = (ns) => (ns === 0 ? "0" : `${ns > 0 ? "+" : "−"}${time(Math.abs(ns))}`);
  const share = (i) => (L.before[i] ? `${more[i] > 0 ? "+" : more[i] < 0 ? "−" : ""}${Math.abs((100 * more[i]) / L.before[i]).toFixed(1)} %` : L.after[i] ? "new" : "");
  const way = (i) => (L.verdict[i] === "same" || !more[i] ? "same" : more[i] > 0 ? "more" : "less");
  flopwise.introduce(data.title, data.about, data.summary, data.notes);
  function group(by) { state.by = by; emit("group"); }
  return { more, signed, share, way, group };
})());
