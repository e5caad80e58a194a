"use strict";
// What all parts of the page of one model share: the convention, the measure, modules and colours.
Object.assign(flopwise, (() => {
  const { data, count, state, emit, number, unknown, human, percent, tip } = flopwise;
  Object.assign(state, { convention: data.conventions.findIndex((c) => c.name === data.convention), measure: "count" });

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
  const values = (measure = state.measure) => measures[measure].of();
  const totals = new Map();
  function total(measure = state.measure) {
    const key = measure === "count" ? `count ${state.convention}` : measure;
    if (!totals.has(key)) totals.set(key, values(measure).reduce((all, value) => all + number(value), 0));
    return totals.get(key);
  }
  // null: the layer has no figure
  function share(layer, measure = state.measure) {
    const value = values(measure)[layer];
    if (unknown(value)) return null;
    return total(measure) ? (100 * number(value)) / total(measure) : 0;
  }

  // Modules: their parts in the order in which they first run, and all layers in them.
  const groups = data.groups.map(([name, kind, parent, run], index) => ({ index, name, kind, parent, run: !!run, parts: [], first: Infinity, last: -1, size: 0, depth: 0 }));
  groups.forEach((group) => { if (group.parent >= 0) group.depth = groups[group.parent].depth + 1; });
  for (let layer = 0; layer < count; layer++) {
    for (let at = data.layers.group[layer]; at >= 0; at = groups[at].parent) {
      groups[at].first = Math.min(groups[at].first, layer);
      groups[at].last = layer;
      groups[at].size++;
    }
    groups[data.layers.group[layer]].parts.push({ layer, first: layer });
  }
  groups.forEach((group) => { if (group.parent >= 0) groups[group.parent].parts.push({ group: group.index, first: group.first }); });
  groups.forEach((group) => group.parts.sort((a, b) => a.first - b.first));

  const added = new Map();
  // For each module: what its layers add up to, how many have no figure, and the operator that has the largest part.
  function groupSums(measure = state.measure) {
    const key = measure === "count" ? `count ${state.convention}` : measure;
    if (added.has(key)) return added.get(key);
    const own = values(measure);
    const sums = groups.map(() => ({ value: 0, unknown: 0, ops: new Map() }));
    for (let layer = 0; layer < count; layer++) {
      for (let at = data.layers.group[layer]; at >= 0; at = groups[at].parent) {
        const to = sums[at];
        if (unknown(own[layer])) to.unknown++;
        const value = number(own[layer]);
        to.value += value;
        to.ops.set(data.layers.op[layer], (to.ops.get(data.layers.op[layer]) || 0) + value);
      }
    }
    sums.forEach((to) => { to.op = [...to.ops].reduce((best, next) => (next[1] > best[1] ? next : best), [-1, -1])[0]; delete to.ops; });
    added.set(key, sums);
    return sums;
  }
  // The module in which the model really begins, below modules that hold nothing but one other module.
  const top = (() => {
    let at = 0;
    while (groups[at].parts.length === 1 && groups[at].parts[0].group !== undefined) at = groups[at].parts[0].group;
    return at;
  })();

  // The seven operators that cost most have a colour of their own.
  const colours = (() => {
    const cost = data.ops.map(() => [0, 0, 0]);
    data.layers.op.forEach((op, layer) => {
      cost[op][0] += number(values("count")[layer]);
      cost[op][1] += number(data.layers.params[layer]);
      cost[op][2] += 1;
    });
    const order = data.ops.map((_, op) => op).sort((a, b) => cost[b][0] - cost[a][0] || cost[b][1] - cost[a][1] || cost[b][2] - cost[a][2]);
    const found = data.ops.map(() => "var(--op-rest)");
    order.slice(0, 7).forEach((op, rank) => { found[op] = `var(--op-${rank})`; });
    return found;
  })();

  const opOf = (layer) => data.ops[data.layers.op[layer]];
  const colourOf = (layer) => colours[data.layers.op[layer]];
  const shapesOf = (list) => list.map((shape) => data.shapes[shape]).join(", ");
  function setConvention(index) { state.convention = index; emit("counts"); }
  function setMeasure(measure) { state.measure = measure; emit("counts"); }

  function layerTip(event, layer) {
    const lines = ["count", "params", "output_bytes"].map((m) => `${measures[m].title()}: ${human(values(m)[layer], measures[m].unit())}${m === state.measure ? `, ${percent(share(layer))}` : ""}`);
    tip(event, data.layers.name[layer], `${opOf(layer)} → ${shapesOf(data.layers.outputs[layer]) || "?"}`, ...lines, data.layers.note[layer]);
  }

  return { convention, measures, values, total, share, groups, groupSums, top, colours, opOf, colourOf, shapesOf, setConvention, setMeasure, layerTip };
})());
