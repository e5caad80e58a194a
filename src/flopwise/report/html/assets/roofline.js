"use strict";
// The roofline: roofs of arithmetic and of each level of memory, and a dot for each layer that computes. The page has
// put its layers into flopwise.roofed before: names, operators, FLOPs, bytes, the time taken, and what else a tip says.
(() => {
  const { data, count, grid, on, choose, tip, untip, sized, svg, human, state, time } = flopwise;
  const { rows, taken, shades, shade, says } = flopwise.roofed;
  const box = document.getElementById("roofline-plot");
  const dots = d3.range(count).filter((i) => rows.flops[i] > 0 && rows.bytes[i] > 0 && taken[i] > 0).map((i) => ({ i, x: rows.flops[i] / rows.bytes[i], y: rows.flops[i] / (taken[i] * 1e-9) }));
  const compute = data.roofs.filter((roof) => roof.unit === "FLOP/s");
  const memory = data.roofs.filter((roof) => roof.unit === "B/s");

  function draw(width) {
    const margin = { left: 74, right: 16, top: 16, bottom: 44 };
    const across = Math.max(1, Math.floor((width - margin.left) / 150)); // operators beside each other, above the chart
    const above = 17 * Math.ceil(shades.size / across) + 6;
    margin.top += above;
    const height = Math.min(520, Math.max(320, width * 0.5)) + above;
    const highest = d3.max(compute, (roof) => roof.value) ?? d3.max(dots, (dot) => dot.y) ?? 1;
    const ridge = memory.length ? highest / d3.min(memory, (roof) => roof.value) : 100;
    const xs = [...dots.map((dot) => dot.x), ridge];
    const ys = [...dots.map((dot) => dot.y), highest];
    const x = d3.scaleLog([d3.min(xs) / 2, d3.max(xs) * 3], [margin.left, width - margin.right]);
    const y = d3.scaleLog([d3.min(ys) / 2, d3.max(ys) * 2], [height - margin.bottom, margin.top]);
    const radius = d3.scaleSqrt([0, d3.max(dots, (dot) => taken[dot.i]) ?? 1], [2, 18]);
    const chart = svg(box, width, height, `Roofline of ${dots.length} layers`);
    grid(chart, "x", x, x.ticks(6).filter((value) => Math.log10(value) % 1 === 0), [margin.top, height - margin.bottom], d3.format("~g"));
    const decades = y.ticks(6).filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9);
    grid(chart, "y", y, decades, [margin.left, width - margin.right], (tick) => human(Math.round(tick), "F/s"));
    chart.append("text").attr("x", width - margin.right).attr("y", height - 8).attr("text-anchor", "end").text("FLOP per byte");
    const clip = chart.append("clipPath").attr("id", "roofline-clip");
    clip.append("rect").attr("x", margin.left).attr("y", margin.top).attr("width", width - margin.left - margin.right).attr("height", height - margin.top - margin.bottom);
    const inside = chart.append("g").attr("clip-path", "url(#roofline-clip)");
    const [left, right] = x.domain();
    for (const roof of memory) {
      const end = Math.min(right, highest / roof.value);
      inside.append("path").attr("class", `roof ${roof.kind}`).attr("d", d3.line()([[x(left), y(left * roof.value)], [x(end), y(end * roof.value)]]));
      const at = Math.max(left * 1.2, y.domain()[0] * 1.4 / roof.value);
      inside.append("text").attr("x", x(at) + 6).attr("y", y(at * roof.value) - 6).text(`${roof.label} ${human(Math.round(roof.value), "B/s")}`);
    }
    for (const roof of compute) {
      const start = memory.length ? Math.max(left, roof.value / d3.max(memory, (m) => m.value)) : left;
      inside.append("path").attr("class", `roof ${roof.kind}`).attr("d", d3.line()([[x(start), y(roof.value)], [x(right), y(roof.value)]]));
      inside.append("text").attr("x", x(right) - 6).attr("y", y(roof.value) - 6).attr("text-anchor", "end").text(`${roof.label} ${human(Math.round(roof.value), "FLOP/s")}`);
    }
    const marks = chart.append("g").selectAll("circle").data([...dots].sort((a, b) => taken[b.i] - taken[a.i])).join("circle")
      .attr("class", "dot").attr("cx", (dot) => x(dot.x)).attr("cy", (dot) => y(dot.y)).attr("r", (dot) => radius(taken[dot.i])).attr("fill", (dot) => shade(rows.op[dot.i]))
      .on("pointermove", (event, dot) => tip(event, rows.name[dot.i], rows.op[dot.i], `${time(taken[dot.i])}, ${human(Math.round(dot.y), "FLOP/s")}, ${Number(dot.x.toPrecision(3))} FLOP per byte`, says(dot.i)))
      .on("pointerleave", untip).on("click", (event, dot) => choose(dot.i, "roofline"));
    marks.classed("on", (dot) => dot.i === state.chosen);
    const legend = chart.append("g");
    [...shades].forEach(([op, colour], place) => {
      const line = legend.append("g").attr("transform", `translate(${margin.left + 6 + 150 * (place % across)},${14 + 17 * Math.floor(place / across)})`);
      line.append("circle").attr("r", 5).attr("fill", colour);
      line.append("text").attr("x", 11).attr("y", 4).text(op);
    });
    on("choose", () => marks.classed("on", (dot) => dot.i === state.chosen));
  }
  if (dots.length) sized(box, draw);
  else box.textContent = "No layer computes anything of which both operations and bytes are known.";
})();
