"use strict";
// Operations, parameters and bytes from the first layer to the last.
(() => {
  const { data, count, groups, number, human, cut, measures } = flopwise;
  const box = document.getElementById("strips");
  const STRIPS = ["count", "params", "output_bytes"];
  const HIGH = 84, GAP = 26, LEFT = 4, RIGHT = 4, BANDS = 34;

  // Runs of layers that lie in the same part of the model, in the order of execution.
  function bands(depth) {
    const found = [];
    for (let layer = 0; layer < count; layer++) {
      let at = data.layers.group[layer];
      while (at > 0 && groups[at].depth > depth) at = groups[at].parent;
      const group = groups[at].depth === depth ? at : null;
      const last = found[found.length - 1];
      if (last && last.group === group) last.to = layer + 1;
      else found.push({ group, from: layer, to: layer + 1 });
    }
    return found;
  }
  // As deep as it takes to see a few parts.
  const runs = (() => {
    const deepest = d3.max(groups, (group) => group.depth);
    let found = bands(groups[flopwise.top].depth + 1);
    for (let depth = groups[flopwise.top].depth + 2; depth <= deepest && d3.max(found, (run) => run.to - run.from) > count * 0.6; depth++) {
      const deeper = bands(depth);
      if (deeper.length > 60) break;
      found = deeper;
    }
    return found;
  })();

  function draw(width) {
    const height = STRIPS.length * (HIGH + GAP) + BANDS;
    const inner = width - LEFT - RIGHT;
    const per = Math.max(1, Math.ceil(count / Math.max(inner / 2, 1)));
    const bins = Math.ceil(count / per);
    const x = (layer) => LEFT + (layer / (bins * per)) * inner;
    const wide = Math.max(x(per) - x(0) - (x(per) - x(0) > 4 ? 1 : 0), 0.6);
    document.getElementById("depth-sub").textContent = per === 1 ? "one bar per layer, in the order of execution, coloured by operator" : `each bar adds up ${per} consecutive layers, coloured by the operator with the largest part`;
    const svg = flopwise.svg(box, width, height, "Operations, parameters and output bytes of the layers in the order of execution; the table of layers has the same figures.");
    STRIPS.forEach((key, index) => {
      const values = flopwise.values(key);
      const binned = d3.range(bins).map((bin) => {
        const found = { value: 0, op: -1, most: -1 };
        for (let layer = bin * per; layer < Math.min(count, (bin + 1) * per); layer++) {
          const value = number(values[layer]);
          found.value += value;
          if (value > found.most) { found.most = value; found.op = data.layers.op[layer]; }
        }
        return found;
      });
      const largest = d3.max(binned, (bin) => bin.value) || 0;
      const bottom = index * (HIGH + GAP) + GAP + HIGH - 4;
      const y = d3.scaleLinear([0, largest || 1], [0, HIGH - 6]);
      const strip = svg.append("g").attr("class", "strip");
      strip.append("text").attr("x", LEFT).attr("y", bottom - HIGH - 2).attr("class", "strong").text(measures[key].title());
      strip.append("text").attr("x", width - RIGHT).attr("y", bottom - HIGH - 2).attr("text-anchor", "end").attr("class", "axis").text(largest ? `top of the scale ${human(Math.round(largest), measures[key].unit())}` : "none");
      strip.append("line").attr("class", "rule").attr("x1", LEFT).attr("x2", width - RIGHT).attr("y1", bottom + 0.5).attr("y2", bottom + 0.5);
      const paths = new Map();
      binned.forEach((bin, at) => {
        if (!bin.value) return;
        const high = Math.max(y(bin.value), 0.75);
        const piece = `M${x(at * per).toFixed(1)},${bottom}v${(-high).toFixed(1)}h${wide.toFixed(1)}v${high.toFixed(1)}z`;
        const colour = flopwise.colours[bin.op];
        paths.set(colour, (paths.get(colour) || "") + piece);
      });
      paths.forEach((path, colour) => strip.append("path").attr("d", path).style("fill", colour));
    });
    const under = STRIPS.length * (HIGH + GAP);
    if (runs.length > 1 && runs.length <= inner / 4) {
      runs.forEach((run) => {
        const [from, to] = [x(run.from), x(run.to)];
        if (run.group === null) return;
        svg.append("line").attr("x1", from + 1).attr("x2", Math.max(to - 1, from + 2)).attr("y1", under + 6).attr("y2", under + 6).style("stroke", "var(--line-strong)").style("stroke-width", 3);
        const room = Math.floor((to - from - 4) / 6);
        if (room >= 3) svg.append("text").attr("class", "axis").attr("x", (from + to) / 2).attr("y", under + 22).attr("text-anchor", "middle").text(cut(groups[run.group].name, room));
      });
    }
    const mark = svg.append("line").attr("class", "chosen-line").attr("y1", 0).attr("y2", under).style("display", "none");
    const cross = svg.append("line").attr("class", "crosshair").attr("y1", 0).attr("y2", under).style("display", "none");
    const layerAt = (event) => Math.max(0, Math.min(count - 1, Math.floor(((d3.pointer(event, svg.node())[0] - LEFT) / inner) * bins * per)));
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
  const redraw = flopwise.sized(box, draw);
  flopwise.on("counts", redraw);
  flopwise.on("choose", redraw);
})();
