"use strict";
// What all parts of the page of a trace share: its measures, the colours of operators, and what the roofline shows.
Object.assign(flopwise, (() => {
  const { data, count, state } = flopwise;
  const L = data.layers, COLOURED = [0, 6, 5, 3, 2, 4, 8], OTHER = 9, REMAINDER = 10;
  state.measure = "time";
  const onLayers = L.time.map((time, i) => (L.remainder[i] ? "" : time));
  const measures = {
    time: { title: () => "time", unit: () => "ns", of: () => onLayers },
    flops: { title: () => "FLOPs", unit: () => "FLOP", of: () => L.flops },
  };
  // The operators that take most of the time have colours of their own.
  const taken = L.time.map(flopwise.number);
  const layers = d3.range(count).filter((i) => !L.remainder[i]);
  const ops = d3.rollups(layers, (list) => d3.sum(list, (i) => taken[i]), (i) => L.op[i]).sort((a, b) => b[1] - a[1]);
  const kinds = new Map(ops.slice(0, COLOURED.length).map(([op], place) => [op, COLOURED[place]]));
  L.kind = d3.range(count).map((i) => (L.remainder[i] ? REMAINDER : kinds.get(L.op[i]) ?? OTHER));
  data.kinds = d3.range(REMAINDER + 1);
  const key = [...kinds].map(([op, kind]) => [data.ops[op], kind]);
  if (ops.length > kinds.size) key.push(["other operators", OTHER]);
  if (L.remainder.some(Boolean)) key.push(["no layer", REMAINDER]);

  flopwise.introduce(data.title, data.about, data.summary, data.notes);
  const opName = (i) => data.ops[L.op[i]];
  const shades = new Map(key.filter(([, kind]) => kind !== REMAINDER).map(([name, kind]) => [name, `var(--k-${kind})`]));
  // A dot is the forward pass of a layer: of backward passes and of segments the bytes are not known.
  const roofed = { rows: { name: L.name, op: d3.range(count).map(opName), flops: L.forward_flops, bytes: L.bytes }, taken: L.forward, shades, shade: (op) => shades.get(op) ?? `var(--k-${OTHER})`, says: () => "" };
  document.getElementById("roofline-sub").textContent = `Arithmetic per byte of operands against FLOP/s, both logarithmic. A dot is the forward pass of a layer, its area its time; segments and backward passes have none, as their bytes are not known.${data.roofs.length ? " Roofs of the device as printed (dashed). Operands that lie in caches let a dot stand above the slope of the memory." : " The device is not known: no roofs."}`;
  return { measures, key, roofed };
})());
