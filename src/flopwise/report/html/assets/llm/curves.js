"use strict";
// Cost and memory against the length of the context: lines through the lengths that were run, and areas of what must fit.
(() => {
  const { data, grid, tip, untip, sized, svg, human, series } = flopwise;
  const points = data.curve;
  const tokens = (value) => `${value.toLocaleString("en-US")} tokens`;

  // Axes of a chart over the lengths of the context, and where a value stands.
  function axes(box, width, label, values, unit, linear, upright) {
    const height = Math.min(380, Math.max(280, width * 0.42)), margin = { left: 76, right: 30, top: 40, bottom: 46 };
    const chart = svg(box, width, height, label);
    const ends = d3.extent(points, (point) => point.context), most = d3.max(values) || 1;
    const x = (linear ? d3.scaleLinear([0, ends[1]], [margin.left, width - margin.right]) : d3.scaleLog(ends, [margin.left, width - margin.right]).base(2));
    const y = linear ? d3.scaleLinear([0, most * 1.08], [height - margin.bottom, margin.top]) : d3.scaleLog([d3.min(values.filter((v) => v > 0)) / 1.5, most * 1.5], [height - margin.bottom, margin.top]);
    const room = Math.max(2, Math.floor((width - margin.left) / 90));
    const across = linear ? x.ticks(Math.min(room, 8)) : points.map((p) => p.context).filter((_, i) => (points.length - 1 - i) % Math.ceil(points.length / room) === 0);
    grid(chart, "x", x, across, [margin.top, height - margin.bottom], (tick) => tick.toLocaleString("en-US"));
    const powers = y.ticks(6).filter((value) => linear || Math.abs(Math.log10(value) % 1) < 1e-9);
    grid(chart, "y", y, powers.length ? powers : y.domain(), [margin.left, width - margin.right], (tick) => human(Math.round(tick), unit));
    chart.append("text").attr("class", "axis-name").attr("x", width - margin.right).attr("y", height - 8).attr("text-anchor", "end").text("tokens of context");
    chart.append("text").attr("class", "axis-name").attr("x", 4).attr("y", height - 8).text(`upright: ${upright}`);
    return { chart, x, y, margin, width };
  }

  // The key above a chart: one line of marks, in as many rows as it takes.
  function key({ chart, margin, width }, entries) {
    let left = margin.left, top = 14;
    for (const [name, colour] of entries) {
      const room = 24 + 7 * name.length;
      if (left + room > width && left > margin.left) { left = margin.left; top += 18; }
      const line = chart.append("g").attr("transform", `translate(${left},${top})`);
      line.append("rect").attr("width", 11).attr("height", 11).attr("y", -9).attr("rx", 2).attr("fill", colour);
      line.append("text").attr("x", 16).text(name);
      left += room;
    }
  }

  function lines(id, label, upright, series) {
    const box = document.getElementById(id);
    sized(box, (width) => {
      const drawn = axes(box, width, label, series.flatMap((one) => points.map(one.value)), "", false, upright);
      for (const one of series) {
        const shown = points.filter((point) => one.value(point) > 0);
        drawn.chart.append("path").attr("class", `curve${one.dashed ? " dashed" : ""}`).attr("stroke", one.colour).attr("d", d3.line((p) => drawn.x(p.context), (p) => drawn.y(one.value(p)))(shown));
        drawn.chart.selectAll(null).data(shown).join("circle").attr("class", "point").attr("r", 4).attr("fill", one.colour).attr("cx", (p) => drawn.x(p.context)).attr("cy", (p) => drawn.y(one.value(p)))
          .on("pointermove", (event, p) => tip(event, one.name, tokens(p.context), human(one.value(p), one.unit))).on("pointerleave", untip);
      }
      key(drawn, series.map((one) => [one.name, one.colour]));
    });
  }

  lines("prompt-plot", "FLOPs of a prompt against its length", "FLOPs", [
    { name: "FLOPs of the prompt", colour: series(0), unit: "FLOP", value: (p) => p.prefill_flops },
    { name: "2 N for each token", colour: series(-1), unit: "FLOP", value: (p) => p.rule, dashed: true },
  ]);
  if (points.some((p) => p.decode_flops)) { // an encoder alone has no steps
    lines("step-plot", "FLOPs and bytes of the step after so many tokens", "FLOPs, bytes", [
      { name: "FLOPs of the step after it", colour: series(0), unit: "FLOP", value: (p) => p.decode_flops },
      { name: "bytes it reads", colour: series(1), unit: "B", value: (p) => p.decode_bytes },
      { name: "of the cache", colour: series(2), unit: "B", value: (p) => p.cache_bytes, dashed: true },
    ]);
  }

  const parts = [["weights", "weight_bytes", series(-1)], ["cache", "held_cache_bytes", series(2)], ["workspace", "workspace_bytes", series(0)]];
  document.getElementById("memory-sub").textContent = `Memory needed: weights, the cache after so many tokens, and the workspace of the largest step.${data.limit ? ` An engine on ${data.device} may use ${human(data.limit, "B")}.` : ""}`;
  const box = document.getElementById("memory-plot");
  sized(box, (width) => {
    const sum = (point, count) => d3.sum(parts.slice(0, count), ([, field]) => point[field] ?? 0);
    const tops = points.map((point) => sum(point, parts.length));
    const near = data.limit && data.limit < 4 * d3.max(tops) ? [data.limit] : [];
    const drawn = axes(box, width, "Memory against the length of the context", [...tops, ...near], "B", true, "bytes");
    parts.forEach(([name, field, colour], place) => {
      drawn.chart.append("path").attr("class", "part").attr("fill", colour).attr("d", d3.area((p) => drawn.x(p.context), (p) => drawn.y(sum(p, place)), (p) => drawn.y(sum(p, place + 1)))(points));
      drawn.chart.selectAll(null).data(points).join("circle").attr("class", "point").attr("r", 4).attr("fill", colour).attr("cx", (p) => drawn.x(p.context)).attr("cy", (p) => drawn.y(sum(p, place + 1)))
        .on("pointermove", (event, p) => tip(event, name, tokens(p.context), human(p[field], "B"), `together ${human(sum(p, parts.length), "B")}`)).on("pointerleave", untip);
    });
    if (near.length) drawn.chart.append("line").attr("class", "limit").attr("x1", drawn.margin.left).attr("x2", width - drawn.margin.right).attr("y1", drawn.y(data.limit)).attr("y2", drawn.y(data.limit));
    key(drawn, parts.map(([name, , colour]) => [name, colour]));
  });
})();
