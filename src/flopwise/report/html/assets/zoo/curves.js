"use strict";
// How few layers there are: unique ones as models are added, and what the most frequent and the most expensive cover.
(() => {
  const { data, number, human, exact, percent, tip, untip, sized, svg } = flopwise;

  // Lines over a rank: each has a name, points of [rank, value] and a colour.
  function curves(id, lines, { logarithmic, unit, title, across }) {
    const box = document.getElementById(id);
    const drawn = lines.filter((line) => line.points.length);
    if (!drawn.length) { box.textContent = "No layers."; return; }
    sized(box, (width) => {
      const height = Math.min(340, Math.max(240, width * 0.6));
      const margin = { left: 62, right: 16, top: 16, bottom: 44 };
      const last = d3.max(drawn, (line) => line.points.at(-1)[0]);
      const x = (logarithmic ? d3.scaleLog : d3.scaleLinear)([logarithmic ? 1 : 0, Math.max(last, 2)], [margin.left, width - margin.right]);
      const y = d3.scaleLinear([0, d3.max(drawn, (line) => d3.max(line.points, (point) => point[1])) || 1], [height - margin.bottom, margin.top]);
      const chart = svg(box, width, height, title);
      flopwise.grid(chart, "y", y, y.ticks(5), [margin.left, width - margin.right], (tick) => (unit ? `${tick} ${unit}` : human(Math.round(tick))));
      const ticks = logarithmic ? x.ticks().filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9) : x.ticks(Math.max(2, Math.floor(width / 110))).filter(Number.isInteger);
      for (const tick of ticks) chart.append("text").attr("x", x(tick)).attr("y", height - margin.bottom + 18).attr("text-anchor", "middle").text(human(tick));
      chart.append("text").attr("x", width - margin.right).attr("y", height - 8).attr("text-anchor", "end").text(`${across} →`);
      const line = d3.line().x((point) => x(point[0])).y((point) => y(point[1]));
      drawn.forEach(({ points, colour, name }, place) => {
        chart.append("path").attr("class", "curve").attr("stroke", colour).attr("d", line(points));
        chart.append("circle").attr("r", 5).attr("cx", margin.left + 16).attr("cy", margin.top + 10 + 17 * place).attr("fill", colour);
        chart.append("text").attr("x", margin.left + 27).attr("y", margin.top + 14 + 17 * place).text(name);
      });
      const cross = chart.append("line").attr("class", "crosshair").attr("y1", margin.top).attr("y2", height - margin.bottom).attr("visibility", "hidden");
      const near = d3.bisector((point) => point[0]).center;
      chart.append("rect").attr("x", margin.left).attr("y", margin.top).attr("width", width - margin.left - margin.right).attr("height", height - margin.top - margin.bottom).attr("fill", "transparent")
        .on("pointermove", (event) => {
          const at = x.invert(d3.pointer(event)[0]);
          const points = drawn.map((one) => one.points[near(one.points, at)]);
          cross.attr("x1", x(points[0][0])).attr("x2", x(points[0][0])).attr("visibility", "visible");
          tip(event, `${exact(points[0][0])} ${across}`, ...drawn.map((one, i) => `${one.name}: ${unit ? percent(points[i][1]) : exact(points[i][1])}`));
        })
        .on("pointerleave", () => { cross.attr("visibility", "hidden"); untip(); });
    });
  }
  const points = (table, column) => table.rows.filter((row) => row[column] !== null).map((row) => [number(row[0]), number(row[column])]);
  curves("growth-plot", [
    { name: "layers", points: points(data.growth, 1), colour: flopwise.series(-1) },
    { name: "unique layers", points: points(data.growth, 2), colour: "var(--mark)" },
  ], { logarithmic: false, title: "Layers and unique layers as models are added", across: "models" });
  curves("cover-plot", [
    { name: "of the layers, by the most frequent", points: points(data.layers_covered, 1), colour: flopwise.series(0) },
    { name: "of the MACs, by the most expensive", points: points(data.macs_covered, 1), colour: flopwise.series(1) },
  ], { logarithmic: true, unit: "%", title: "Share that the first unique layers cover", across: "unique layers" });
})();
