"use strict";
// Bytes of activations alive at each step, and what is alive at the peak.
(() => {
  const { data, make, number, human, exact, noun } = flopwise;
  const memory = data.memory;
  const box = document.getElementById("memory-chart");
  const sub = document.getElementById("memory-sub");
  const list = document.getElementById("alive");
  if (!memory.bytes.length) {
    sub.textContent = "";
    box.append(make("p", { class: "empty" }, `Not known: ${noun(memory.more, "tensor has", "tensors have")} no size (${memory.missing.join(", ")}${memory.more > memory.missing.length ? " …" : ""}).`));
    document.querySelector(".memory-in").style.gridTemplateColumns = "1fr";
    list.remove();
    return;
  }
  const nameOf = (layer, none) => (layer < 0 ? none : data.layers.name[layer]);
  const peakBytes = memory.bytes[memory.peak];
  const HEIGHT = 262, TOP = 30, BOTTOM = 24, LEFT = 62, RIGHT = 10, FEW = 4;
  sub.textContent = `bytes alive at each step; the peak is ${human(peakBytes, "B")}`;

  const rows = memory.alive.map((tensor) => make("tr", { onclick: tensor.made >= 0 ? () => flopwise.choose(tensor.made, "memory") : null },
    make("td", { title: tensor.name }, flopwise.cut(tensor.name, 18)), make("td", { title: tensor.shape }, tensor.shape),
    make("td", { title: `produced by ${nameOf(tensor.made, "the caller")}, last used by ${tensor.kept ? "the caller" : nameOf(tensor.used, "nobody")}` }, flopwise.cut(nameOf(tensor.made, "(input)"), 18)),
    make("td", { class: "num", title: `${exact(tensor.bytes)} B` }, human(tensor.bytes, "B"))));
  list.append(make("h3", {}, `Alive at the peak: ${noun(memory.alive.length + memory.more, "buffer")}`),
    make("div", { class: "alive-list", role: "region", "aria-label": "Tensors alive at the peak" },
      make("table", { class: "plain" }, make("thead", {}, make("tr", {}, make("th", {}, "tensor"), make("th", {}, "shape"), make("th", {}, "produced by"), make("th", { class: "num" }, "bytes"))), make("tbody", {}, ...rows))));
  if (memory.more) list.append(make("p", { class: "sub" }, `and ${memory.more} more`));

  flopwise.cue(list.querySelector(".alive-list"));
  // a short list stands below the chart, so that no half of the panel is empty
  document.querySelector(".memory-in").classList.toggle("below", memory.alive.length <= FEW);

  function draw(width) {
    const steps = memory.bytes.length;
    const most = number(peakBytes) || 1;
    const x = d3.scaleLinear([0, steps], [LEFT, width - RIGHT]);
    const y = d3.scaleLinear([0, most], [HEIGHT - BOTTOM, TOP]);
    const svg = flopwise.svg(box, width, HEIGHT, `Activation memory over the order of execution; the peak is ${human(peakBytes, "B")} at ${nameOf(memory.layer[memory.peak], "the start")}.`);
    flopwise.grid(svg, "y", y, y.ticks(4), [LEFT, width - RIGHT], (tick) => human(Math.round(tick), "B"), ["rule", "axis"]);
    const points = memory.bytes.map(number);
    const bins = Math.min(steps, Math.floor((width - LEFT - RIGHT) / (steps > width ? 2 : 1)));
    const edge = (bin) => Math.round((bin * steps) / bins);
    // Of several steps in a pixel the least and the most: between them the line goes up and down.
    const ends = d3.range(bins).map((bin) => [edge(bin), ...d3.extent(points.slice(edge(bin), Math.max(edge(bin + 1), edge(bin) + 1)))]);
    ends.push([steps, ends[bins - 1][1], ends[bins - 1][2]]);
    const area = d3.area().curve(d3.curveStepAfter).x(([step]) => x(step));
    svg.append("path").attr("d", area.y0(y(0)).y1(([, least]) => y(least))(ends)).style("fill", "var(--heat-1)").style("opacity", 0.22);
    if (bins < steps) svg.append("path").attr("class", "memory-band").attr("d", area.y0(([, least]) => y(least)).y1(([, , most]) => y(most))(ends)).style("fill", "var(--heat-1)").style("opacity", 0.45);
    svg.append("path").attr("d", area.lineY1().y(([, , most]) => y(most))(ends)).style("fill", "none").style("stroke", "var(--heat-1)").style("stroke-width", 1.5);
    const mid = (step) => (x(step) + x(step + 1)) / 2;
    const at = mid(memory.peak);
    svg.append("line").attr("x1", at).attr("x2", at).attr("y1", y(0)).attr("y2", TOP - 6).style("stroke", "var(--mark)").style("stroke-width", 1.5);
    svg.append("circle").attr("cx", at).attr("cy", TOP).attr("r", 4).style("fill", "var(--mark)");
    const side = at > width / 2 ? "end" : "start";
    const room = Math.floor((side === "end" ? at - 8 : width - at - 8) / 7.4);
    svg.append("text").attr("class", "strong").attr("x", at + (side === "end" ? -8 : 8)).attr("y", 15).attr("text-anchor", side)
      .text(flopwise.cut(`peak ${human(peakBytes, "B")} at ${nameOf(memory.layer[memory.peak], "the start")}`, room));
    const chosen = memory.layer.indexOf(flopwise.state.chosen);
    if (flopwise.state.chosen >= 0 && chosen >= 0) svg.append("line").attr("class", "chosen-line").attr("x1", mid(chosen)).attr("x2", mid(chosen)).attr("y1", TOP).attr("y2", y(0)).style("stroke-dasharray", "4 3");
    svg.append("text").attr("class", "axis").attr("x", LEFT).attr("y", HEIGHT - 6).text("start");
    svg.append("text").attr("class", "axis").attr("x", width - RIGHT).attr("y", HEIGHT - 6).attr("text-anchor", "end").text("end");
    const cross = svg.append("line").attr("class", "crosshair").attr("y1", TOP).attr("y2", y(0)).style("display", "none");
    const stepAt = (event) => Math.max(0, Math.min(steps - 1, Math.floor(x.invert(d3.pointer(event, svg.node())[0]))));
    svg.append("rect").attr("width", width).attr("height", HEIGHT).style("fill", "transparent").style("cursor", "pointer")
      .on("mousemove", (event) => {
        const step = stepAt(event);
        cross.attr("x1", mid(step)).attr("x2", mid(step)).style("display", null);
        flopwise.tip(event, `${human(memory.bytes[step], "B")} alive`, `at ${nameOf(memory.layer[step], "the start")}`, `${exact(memory.bytes[step])} B`);
      })
      .on("mouseleave", () => { cross.style("display", "none"); flopwise.untip(); })
      .on("click", (event) => { const layer = memory.layer[stepAt(event)]; if (layer >= 0) flopwise.choose(layer, "memory"); });
  }

  const redraw = flopwise.sized(box, draw);
  flopwise.on("choose", redraw);
})();
