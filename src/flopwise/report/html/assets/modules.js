"use strict";
// Modules of a model: their parts, what repeats, and what each adds up to in a measure. A page has defined its measures
// before: for each a title(), a unit() and its values of(), one for each layer.
Object.assign(flopwise, (() => {
  const { data, count, state, emit, number, unknown, measures } = flopwise;
  const SMALL = 60; // layers

  const values = (measure = state.measure) => measures[measure].of();
  // What is worked out once for each measure, and for each convention where it shows in the measure.
  function remembered(work) {
    const results = new Map();
    return (measure = state.measure) => {
      const key = `${measure === "count" ? state.convention : measure} ${flopwise.state.fold}`;
      if (!results.has(key)) results.set(key, work(measure));
      return results.get(key);
    };
  }
  const total = remembered((measure) => values(measure).reduce((all, value) => all + number(value), 0));
  // null: the layer has no figure
  function share(layer, measure = state.measure) {
    const value = values(measure)[layer];
    if (unknown(value)) return null;
    return total(measure) ? (100 * number(value)) / total(measure) : 0;
  }

  // Modules: their parts in the order in which they first run, and all layers in them.
  const groups = data.groups.map(([name, kind, parent, form], index) => ({ index, name, kind, parent, run: form === 1, period: Math.max(form - 1, 0), parts: [], first: Infinity, last: -1, size: 0, depth: 0 }));
  groups.forEach((group) => { if (group.parent >= 0) group.depth = groups[group.parent].depth + 1; });
  for (let layer = 0; layer < count; layer++) {
    for (let at = data.layers.group[layer]; at >= 0; at = groups[at].parent) {
      groups[at].first = Math.min(groups[at].first, layer);
      groups[at].last = layer;
      groups[at].size++;
    }
    groups[data.layers.group[layer]]?.parts.push({ layer, first: layer });
  }
  groups.forEach((group) => { if (group.parent >= 0) groups[group.parent].parts.push({ group: group.index, first: group.first }); });
  groups.forEach((group) => group.parts.sort((a, b) => a.first - b.first));
  const layersIn = (part) => (part.layer !== undefined ? [part.layer] : groups[part.group].parts.flatMap(layersIn));

  // Parts that repeat are folded, in a small model only where somebody asks for it: the first period stands for all, and each layer has a twin there.
  const repeats = groups.filter((group) => group.period > 0);
  state.fold = repeats.length > 0 && count > SMALL;
  const twin = d3.range(count);
  const turns = Array.from({ length: repeats.length ? count : 0 }, () => []); // for each layer: repeat and turn, outermost first
  // Runs of its parts, and the one module of a period, are not shown beside the repeat itself.
  function instances(group, repeat = group) {
    return group.parts.flatMap((part) => {
      const inner = groups[part.group];
      if (inner) inner.within = inner.run || repeat.period === 1;
      return inner && inner.run ? instances(inner, repeat) : [part];
    });
  }
  [...repeats].reverse().forEach((group) => {
    const parts = instances(group);
    group.times = parts.length / group.period;
    group.one = parts.slice(0, group.period);
    let first;
    for (let turn = 0; turn < group.times; turn++) {
      const layers = parts.slice(turn * group.period, (turn + 1) * group.period).flatMap(layersIn).sort((a, b) => a - b);
      first ||= layers;
      const place = new Map(layers.map((layer, at) => [layer, at]));
      layers.forEach((layer) => { twin[layer] = twin[first[place.get(twin[layer])]]; turns[layer].unshift(group.index, turn); });
    }
  });
  const standsFor = new Array(count).fill(0);
  const twins = new Map(); // of layers that stand for others: all of them
  twin.forEach((one, layer) => { standsFor[one]++; if (one !== layer || twins.has(one)) twins.set(one, [...(twins.get(one) || [one]), ...(one === layer ? [] : [layer])]); });
  const shownAs = (layer) => (state.fold ? twin[layer] : layer);
  const times = (layer) => (state.fold ? standsFor[layer] : 1);
  const layersOf = (layer) => (state.fold && twins.get(layer)) || [layer];
  // Whether a value goes from one turn of a repeat to the next, or to a later one.
  function carried(from, to) {
    if (!state.fold || !turns.length) return false;
    const [a, b] = [turns[from], turns[to]];
    for (let at = 0; at < Math.min(a.length, b.length) && a[at] === b[at]; at += 2) if (a[at + 1] !== b[at + 1]) return true;
    return false;
  }
  const bare = (group) => state.fold && !!group.within;
  // The parts of a module as they are shown.
  function partsOf(group) {
    const { period, one } = groups[group];
    if (!period || !state.fold) return groups[group].parts;
    return period === 1 && one[0].group !== undefined ? partsOf(one[0].group) : one;
  }
  // The layer of a module that holds nothing else, or -1.
  function single(group) {
    for (let at = group; ;) {
      const parts = partsOf(at);
      if (parts.length !== 1) return -1;
      if (parts[0].layer !== undefined) return parts[0].layer;
      at = parts[0].group;
    }
  }

  // For each layer what it and the layers that it stands for add up to.
  const folded = remembered((measure) => {
    const own = values(measure);
    if (!state.fold) return own;
    const sums = new Array(count).fill(0);
    twin.forEach((one, layer) => { if (!unknown(own[layer])) sums[one] += number(own[layer]); else if (!sums[one]) sums[one] = null; });
    return sums;
  });
  // For each module: what its layers add up to, how many have no figure, and the kind of work that has the largest part.
  const groupSums = remembered((measure) => {
    const own = values(measure);
    const sums = groups.map(() => ({ value: 0, unknown: 0, kinds: new Map() }));
    for (let layer = 0; layer < count; layer++) {
      const value = number(own[layer]);
      for (let at = data.layers.group[shownAs(layer)]; at >= 0; at = groups[at].parent) {
        const to = sums[at];
        if (unknown(own[layer])) to.unknown++;
        to.value += value;
        to.kinds.set(data.layers.kind[layer], (to.kinds.get(data.layers.kind[layer]) || 0) + value);
      }
    }
    sums.forEach((to) => { to.kind = [...to.kinds].reduce((best, next) => (next[1] > best[1] ? next : best), [data.kinds.length - 1, -1])[0]; });
    return sums;
  });
  // The module in which the model really begins, below modules that hold nothing but one other module.
  const top = (() => {
    let at = 0;
    while (groups[at].parts.length === 1 && groups[at].parts[0].group !== undefined && !groups[at].period) at = groups[at].parts[0].group;
    return at;
  })();
  // The modules around one, the model first, as they are shown.
  function pathTo(group) {
    const path = [];
    for (let at = group; at >= 0; at = groups[at].parent) if (!bare(groups[at])) path.unshift(groups[at]);
    return path;
  }

  const colour = (kind) => `var(--k-${kind})`;
  const ink = (kind) => `var(--on-k-${kind})`;
  const opOf = (layer) => data.ops[data.layers.op[layer]];
  // The last part of a layer's name; a block's own Add is called as the block and has only its number there.
  function brief(layer) {
    const last = data.layers.name[layer].replace(/\/+$/, "").split(/[/.]/).pop();
    return /^\D/.test(last) ? last : opOf(layer);
  }
  function setFold(fold) { state.fold = fold; emit("fold"); emit("counts"); }
  // Buttons that fold and unfold what repeats.
  document.querySelectorAll(".fold").forEach((button) => {
    const paint = () => { button.setAttribute("aria-pressed", String(state.fold)); };
    button.hidden = !repeats.length;
    button.addEventListener("click", () => setFold(!state.fold));
    flopwise.on("fold", paint);
    paint();
  });

  return { values, total, share, groups, repeats, groupSums, folded, top, twin, shownAs, times, layersOf, carried, bare, partsOf, layersIn, single, pathTo, colour, ink, brief, opOf, setFold };
})());
