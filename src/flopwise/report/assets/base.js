"use strict";
// The data of the page, how numbers are written, and what all parts share: convention, measure and chosen layer.
const flopwise = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const count = data.layers.name.length;
  const state = { convention: data.conventions.findIndex((c) => c.name === data.convention), measure: "count", chosen: -1 };
  const listeners = {};

  const on = (event, listener) => (listeners[event] ||= []).push(listener);
  const emit = (event, ...told) => (listeners[event] || []).forEach((listener) => listener(...told));

  // Elements are made here and text is set as text: nothing from a model is ever read as HTML.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "class") element.className = value;
      else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  const digits = /^-?\d+$/;
  const unknown = (value) => value === null || value === undefined;
  // For scales and shares; a large integer travels as text, and so does a figure in symbols, which has no size.
  function number(value) {
    if (typeof value === "number") return value;
    return typeof value === "string" && digits.test(value) ? Number(value) : 0;
  }
  function exact(value) {
    if (unknown(value)) return "?";
    if (value === "") return "–";
    if (typeof value === "string" && !digits.test(value)) return value;
    return BigInt(value).toLocaleString("en-US");
  }
  const prefixes = ["", "k", "M", "G", "T", "P", "E", "Z", "Y"];
  function parts(value, unit = "") {
    if (unknown(value)) return ["?", ""];
    if (value === "") return ["–", ""];
    if (typeof value === "string" && !digits.test(value)) return [value, unit];
    const size = Math.abs(Number(value));
    if (size < 1000) return [exact(value), unit];
    const [mantissa, power] = Number(value).toExponential(2).split("e");
    const group = Math.min(Math.floor(Number(power) / 3), prefixes.length - 1);
    const shift = Number(power) - 3 * group;
    return [(Number(mantissa) * 10 ** shift).toFixed(Math.max(2 - shift, 0)), prefixes[group] + unit];
  }
  const human = (value, unit = "") => parts(value, unit).join(" ").trim();
  function percent(share) {
    if (share === null || Number.isNaN(share)) return "?";
    return share > 0 && share < 0.05 ? "<0.1 %" : `${share.toFixed(1)} %`;
  }
  const sum = (values) => values.reduce((total, value) => total + (typeof value === "string" && !digits.test(value) ? 0n : BigInt(value ?? 0)), 0n);

  const convention = () => data.conventions[state.convention];
  const measures = {
    count: { title: () => `${convention().unit} (${convention().name})`, unit: () => convention().unit, of: () => convention().counts },
    params: { title: () => "parameters", unit: () => "", of: () => data.layers.params },
    weight_bytes: { title: () => "weight bytes", unit: () => "B", of: () => data.layers.weight_bytes },
    output_bytes: { title: () => "output bytes", unit: () => "B", of: () => data.layers.output_bytes },
  };
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
  const noun = (many, one, more = `${one}s`) => `${many.toLocaleString("en-US")} ${many === 1 ? one : more}`;
  const cut = (text, room) => {
    if (text.length <= room) return text;
    if (room < 4) return text.slice(0, Math.max(room, 0));
    const head = Math.floor((room - 1) * 0.4);
    return `${text.slice(0, head)}…${text.slice(text.length - (room - 1 - head))}`;
  };

  function choose(layer, from = "") {
    state.chosen = layer;
    emit("choose", layer, from);
  }
  function setConvention(index) { state.convention = index; emit("counts"); }
  function setMeasure(measure) { state.measure = measure; emit("counts"); }

  // A tip beside the pointer: a bold line and more lines.
  const tipBox = document.getElementById("tip");
  function tip(event, title, ...lines) {
    tipBox.replaceChildren(make("b", {}, title), ...lines.filter(Boolean).map((line) => make("div", {}, line)));
    tipBox.hidden = false;
    const box = tipBox.getBoundingClientRect();
    const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - box.width - 14 : event.clientX + 14;
    const above = event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16;
    tipBox.style.left = `${Math.max(left, 8)}px`;
    tipBox.style.top = `${Math.max(above, 8)}px`;
  }
  const untip = () => { tipBox.hidden = true; };
  function layerTip(event, layer) {
    const lines = ["count", "params", "output_bytes"].map((m) => `${measures[m].title()}: ${human(values(m)[layer], measures[m].unit())}${m === state.measure ? `, ${percent(share(layer))}` : ""}`);
    tip(event, data.layers.name[layer], `${opOf(layer)} → ${shapesOf(data.layers.outputs[layer]) || "?"}`, ...lines, data.layers.note[layer]);
  }

  const PRINTED = 680; // room on a printed page
  // Charts are drawn anew when their room changes.
  function sized(element, draw) {
    let before = 0;
    const again = () => {
      const width = Math.floor(element.clientWidth);
      if (width && Math.abs(width - before) > 1) { before = width; draw(width); }
    };
    new ResizeObserver(again).observe(element);
    again();
    addEventListener("beforeprint", () => draw(PRINTED));
    addEventListener("afterprint", () => draw(before || PRINTED));
    return () => draw(before || PRINTED);
  }
  const svg = (element, width, height, label) => d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img").attr("aria-label", label).call((made) => { element.replaceChildren(made.node()); });

  return { data, count, state, on, emit, make, number, unknown, exact, parts, human, percent, sum, convention, measures, values, total, share, groups, groupSums, top, colours, opOf, colourOf, shapesOf, noun, cut, choose, setConvention, setMeasure, tip, untip, layerTip, sized, svg };
})();
