"use strict";
// What all parts of the page of one model share: the convention, the measure and tips.
Object.assign(flopwise, (() => {
  const { data, state, emit, number, unknown, human, percent, tip } = flopwise;
  Object.assign(state, { convention: data.conventions.findIndex((c) => c.name === data.convention), measure: "count" });

  data.conventions.forEach((view) => { if (typeof view.counts === "number") view.counts = data.conventions[view.counts].counts; });
  const convention = () => data.conventions[state.convention];
  const measures = {
    count: { title: () => flopwise.counted(convention()), unit: () => convention().unit, of: () => convention().counts },
    params: { title: () => "parameters", unit: () => "", of: () => data.layers.params },
    weight_bytes: { title: () => "weight bytes", unit: () => "B", of: () => data.layers.weight_bytes },
    output_bytes: { title: () => "output bytes", unit: () => "B", of: () => data.layers.output_bytes },
  };
  if (data.training) {
    measures.backward_flops = { title: () => "backward FLOPs", unit: () => "FLOP", of: () => data.layers.backward_flops };
    measures.saved_bytes = { title: () => "saved bytes", unit: () => "B", of: () => data.layers.saved_bytes };
  }
  const kindOf = (layer) => data.kinds[data.layers.kind[layer]];
  const colourOf = (layer) => flopwise.colour(data.layers.kind[layer]);
  const shapesOf = (list) => list.map((shape) => data.shapes[shape]).join(", ");
  // Floating-point operations for each byte that a layer reads or writes; null where one of them is not known.
  const intensity = (layers) => {
    const L = data.layers;
    if (layers.some((i) => [L.flops[i], L.weight_bytes[i], L.input_bytes[i], L.output_bytes[i]].some(unknown))) return null;
    const [flops, bytes] = [d3.sum(layers, (i) => number(L.flops[i])), d3.sum(layers, (i) => number(L.weight_bytes[i]) + number(L.input_bytes[i]) + number(L.output_bytes[i]))];
    return bytes ? flops / bytes : null;
  };
  function setConvention(index) { state.convention = index; emit("counts"); }
  function setMeasure(measure) { state.measure = measure; emit("counts"); }
  function layerTip(event, layer) {
    const lines = ["count", "params", "output_bytes"].map((m) => `${measures[m].title()}: ${human(flopwise.values(m)[layer], measures[m].unit())}${m === state.measure ? `, ${percent(flopwise.share(layer))}` : ""}`);
    const many = flopwise.times(layer) > 1 ? `one of ${flopwise.times(layer)} identical layers` : "";
    tip(event, data.layers.name[layer], `${flopwise.opOf(layer)} (${kindOf(layer)}) → ${shapesOf(data.layers.outputs[layer]) || "?"}`, ...lines, many, data.layers.note[layer]);
  }
  function groupTip(event, group) {
    const { value } = flopwise.groupSums()[group], { name, kind, size } = flopwise.groups[group], total = flopwise.total();
    tip(event, name, kind, flopwise.noun(size, "layer"), `${measures[state.measure].title()}: ${human(Math.round(value), measures[state.measure].unit())}, ${percent(total ? (100 * value) / total : 0)}`);
  }

  return { convention, measures, kindOf, colourOf, shapesOf, intensity, setConvention, setMeasure, layerTip, groupTip };
})());
