"use strict";
// Operations, parameters and bytes from the first layer to the last: a bar for each layer where there is room for it,
// else the band between the least and the most of the layers in a few pixels. A scale is clipped where a few layers
// would crush all the others.
(() => {
  const { data, count, groups, number, human, cut, measures, noun } = flopwise;
  const box = document.getElementById("strips");
  const pick = document.getElementById("depth-scale");
  const STRIPS = ["count", "params", "output_bytes"];
  const HIGH = 84, GAP = 26, LEFT = 4, RIGHT = 4, BANDS = 34;
  const THIN = 1.15, BAND = 3; // pixels of the thinnest bar, and of a band
  const CRUSHED = 3, FEW = 0.04; // clipped where no more than this part of the layers is so many times larger than the rest

  // Runs of layers that lie in the same part of the model, in the order of execution.
  function bands(depth) {
    const runs = [];
    for (let layer = 0; layer < count; layer++) {
      let at = data.layers.group[layer];
      while (at > 0 && groups[at].depth > depth) at = groups[at].parent;
      const group = groups[at].depth === depth ? at : null;
      const last = runs[runs.length - 1];
      if (last && last.group === group) last.to = layer + 1;
      else runs.push({ group, from: layer, to: layer + 1 });
    }
    return runs;
  }
  // As deep as it takes to see a few parts.
  const runs = (() => {
    const deepest = d3.max(groups, (group) => group.depth);
    let best = bands(groups[flopwise.top].depth + 1);
    for (let depth = groups[flopwise.top].depth + 2; depth <= deepest && d3.max(best, (run) => run.to - run.from) > count * 0.6; depth++) {
      const deeper = bands(depth);
      if (deeper.length > 60) break;
      best = deeper;
    }
    return best;
  })();

  // Where the scale ends: below a few layers that are far larger than all others.
  function clipped(values) {
    const sorted = values.filter((value) => value > 0).sort((a, b) => b - a);
    const few = Math.max(2, Math.floor(sorted.length * FEW));
    for (let at = 1; at <= few && at < sorted.length; at++) if (sorted[at - 1] > CRUSHED * sorted[at]) return sorted[at] * 1.25;
    return sorted[0] || 0;
  }
  function scaleOf(values, unit) {
    const largest = d3.max(values) || 0;
    const least = d3.min(values, (value) => (value > 0 ? value : Infinity));
    const end = pick.value === "linear" ? largest : clipped(values);
    if (!largest) return { y: () => 0, says: ["none"], end };
    if (pick.value === "log" && largest > least) {
      const from = Math.max(least / 1.6, largest / 1e8);
      const scale = d3.scaleLog([from, largest], [0, HIGH - 6]).clamp(true);
      return { y: (value) => (value > 0 ? scale(value) : 0), says: [`log scale from ${human(Math.max(1, Math.round(least)), unit)} to ${human(Math.round(largest), unit)}`], end: largest };
    }
    const scale = d3.scaleLinear([0, end || 1], [0, HIGH - 6]).clamp(true);
    const over = values.filter((value) => value > end).length;
    return { y: scale, end, says: over ? [`clipped at ${human(Math.round(end), unit)}`, `: ${noun(over, "layer")} up to ${human(Math.round(largest), unit)}`] : [`top of the scale ${human(Math.round(end), unit)}`] };
  }

  function draw(width) {
    const height = STRIPS.length * (HIGH + GAP) + BANDS;
    const inner = width - LEFT - RIGHT;
    const single = inner / count >= THIN;
    const bins = single ? count : Math.max(1, Math.floor(inner / BAND));
    const edge = (bin) => Math.round((bin * count) / bins);
    const x = (layer) => LEFT + (layer / count) * inner;
    document.getElementById("depth-sub").textContent = single
      ? "one bar per layer, in the order of execution"
      : `${noun(count, "layer")} in the order of execution; a band shows the least and the most of about ${Math.round(count / bins)} neighbours, the line their mean`;
    const svg = flopwise.svg(box, width, height, "Operations, parameters and output bytes of the layers in the order of execution; the table of layers has the same figures.");
    STRIPS.forEach((key, index) => {
      const values = flopwise.values(key).map(number);
      const { y, says, end } = scaleOf(values, measures[key].unit());
      const bottom = index * (HIGH + GAP) + GAP + HIGH - 4;
      const strip = svg.append("g").attr("class", "strip");
      const paths = new Map();
      const add = (colour, piece) => paths.set(colour, (paths.get(colour) || "") + piece);
      const breaks = [];
      if (single) {
        const wide = Math.max(x(1) - x(0) - (x(1) - x(0) > 4 ? 1 : 0), 0.9);
        values.forEach((value, layer) => {
          if (!value) return;
          const high = Math.max(y(value), 0.75);
          add(flopwise.colourOf(layer), `M${x(layer).toFixed(1)},${bottom}v${(-high).toFixed(1)}h${wide.toFixed(1)}v${high.toFixed(1)}z`);
          if (value > end) breaks.push([x(layer), wide]);
        });
        paths.forEach((path, colour) => strip.append("path").attr("d", path).style("fill", colour));
      } else {
        const kinds = d3.range(bins).map((bin) => {
          const sums = new Map();
          for (let layer = edge(bin); layer < edge(bin + 1); layer++) sums.set(data.layers.kind[layer], (sums.get(data.layers.kind[layer]) || 0) + values[layer]);
          return sums;
        });
        const means = d3.range(bins).map((bin) => d3.mean(values.slice(edge(bin), Math.max(edge(bin + 1), edge(bin) + 1))));
        const whole = d3.rollup(d3.range(count), (list) => d3.sum(list, (layer) => values[layer]), (layer) => data.layers.kind[layer]);
        let line = "";
        for (let bin = 0; bin < bins; bin++) {
          const [from, to] = [edge(bin), Math.max(edge(bin + 1), edge(bin) + 1)];
          const [least, most] = d3.extent(values.slice(from, to));
          // the kind that has most of the neighbourhood, so that colours do not flicker
          const near = new Map();
          for (let at = Math.max(0, bin - 3); at <= Math.min(bins - 1, bin + 3); at++) kinds[at].forEach((value, kind) => near.set(kind, (near.get(kind) || 0) + value));
          const largest = d3.max(near.values());
          const kind = d3.greatest([...near].filter(([, value]) => value >= 0.8 * largest), ([at]) => whole.get(at))[0];
          const [top, low, left] = [bottom - Math.max(y(most), most ? 0.75 : 0), bottom - y(least), x(from)];
          if (most) add(flopwise.colour(kind), `M${left.toFixed(1)},${top.toFixed(1)}H${x(to).toFixed(1)}V${Math.max(low, top + 0.75).toFixed(1)}H${left.toFixed(1)}z`);
          if (most > end) breaks.push([left, x(to) - left]);
          const mean = d3.mean(means.slice(Math.max(0, bin - 3), bin + 4));
          line += `${line ? "L" : "M"}${((left + x(to)) / 2).toFixed(1)},${(bottom - y(mean)).toFixed(1)}`;
        }
        paths.forEach((path, colour) => strip.append("path").attr("class", "band").attr("d", path).style("fill", colour));
        strip.append("path").attr("class", "mean").attr("d", line);
      }
      // what is cut off has a gap below its end
      breaks.forEach(([left, wide]) => strip.append("path").attr("class", "break").attr("d", `M${left - 2},${bottom - HIGH + 17}l${wide / 2 + 2},-4l${wide / 2 + 2},4v3l${-wide / 2 - 2},-4l${-wide / 2 - 2},4z`));
      strip.append("text").attr("x", LEFT).attr("y", bottom - HIGH - 2).attr("class", "strong").text(measures[key].title());
      strip.append("text").attr("x", width - RIGHT).attr("y", bottom - HIGH - 2).attr("text-anchor", "end").attr("class", "axis").text(width < 560 ? says[0] : says.join(""));
      strip.append("line").attr("class", "rule").attr("x1", LEFT).attr("x2", width - RIGHT).attr("y1", bottom + 0.5).attr("y2", bottom + 0.5);
    });
    const under = STRIPS.length * (HIGH + GAP);
    if (runs.length > 1 && runs.length <= inner / 4) {
      // Names that are wider than their parts are shown for every second, third ... of them.
      const named = runs.filter((run) => run.group !== null);
      const wide = d3.median(named, (run) => x(run.to) - x(run.from)), longest = d3.max(named, (run) => groups[run.group].name.length);
      const step = longest <= 4 ? Math.ceil((6.5 * longest + 8) / wide) : 1;
      let free = LEFT; // where the next name may begin
      named.forEach((run, place) => {
        const [from, to] = [x(run.from), x(run.to)];
        svg.append("line").attr("x1", from + 1).attr("x2", Math.max(to - 1, from + 2)).attr("y1", under + 6).attr("y2", under + 6).style("stroke", "var(--line-strong)").style("stroke-width", 3);
        const name = groups[run.group].name, room = longest <= 4 ? longest : Math.floor((to - from - 4) / 6);
        if (place % step) return;
        const text = room >= Math.min(3, name.length) ? cut(name, room) : "";
        if (!text || (from + to) / 2 - 3 * text.length < free) return;
        free = (from + to) / 2 + 3 * text.length + 4;
        svg.append("text").attr("class", "axis").attr("x", (from + to) / 2).attr("y", under + 22).attr("text-anchor", "middle").text(text);
      });
    }
    const mark = svg.append("line").attr("class", "chosen-line").attr("y1", 0).attr("y2", under).style("display", "none");
    const cross = svg.append("line").attr("class", "crosshair").attr("y1", 0).attr("y2", under).style("display", "none");
    const layerAt = (event) => Math.max(0, Math.min(count - 1, Math.floor(((d3.pointer(event, svg.node())[0] - LEFT) / inner) * count)));
    const middle = (layer) => (x(layer) + x(layer + 1)) / 2;
    if (flopwise.state.chosen >= 0) mark.attr("x1", middle(flopwise.state.chosen)).attr("x2", middle(flopwise.state.chosen)).style("display", null);
    svg.append("rect").attr("width", width).attr("height", height).style("fill", "transparent").style("cursor", "pointer")
      .on("mousemove", (event) => {
        const layer = layerAt(event);
        cross.attr("x1", middle(layer)).attr("x2", middle(layer)).style("display", null);
        flopwise.layerTip(event, layer);
      })
      .on("mouseleave", () => { cross.style("display", "none"); flopwise.untip(); })
      .on("click", (event) => flopwise.choose(layerAt(event), "depth"));
  }

  if (!count) return;
  pick.value = "clipped";
  const redraw = flopwise.sized(box, draw);
  pick.addEventListener("change", redraw);
  flopwise.on("counts", redraw);
  flopwise.on("choose", redraw);
})();
