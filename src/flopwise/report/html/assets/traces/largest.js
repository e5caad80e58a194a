"use strict";
// The lines that differ most: a ring for the first trace, a dot for the second, and the spread of the steps around it.
(() => {
  const { data, count, tip, untip, sized, svg, cut, time, more, signed, share, way, state } = flopwise;
  const L = data.layers, MOST = 20, LINE = 24;
  const box = document.getElementById("largest-plot");
  function draw(width) {
    const all = d3.range(count).filter((i) => L.by[i] === state.by && more[i]);
    const lines = all.sort((a, b) => Math.abs(more[b]) - Math.abs(more[a])).slice(0, MOST);
    document.getElementById("largest-sub").textContent = `${lines.length < all.length ? `The ${MOST} largest of ${all.length.toLocaleString("en-US")}: ` : ""}ring: before, dot: after, line through the dot: the spread of the steps; grey: within that spread.`;
    if (!lines.length) { box.textContent = "Nothing differs."; return; }
    const label = Math.min(280, width * 0.36), margin = { top: 6, right: 78, bottom: 26 };
    const height = margin.top + LINE * lines.length + margin.bottom;
    const x = d3.scaleLinear([0, d3.max(lines, (i) => Math.max(L.before[i], L.after[i]) + L.spread[i]) || 1], [label + 12, width - margin.right]);
    const chart = svg(box, width, height, `The ${lines.length} largest differences; the table has the same figures.`);
    flopwise.grid(chart, "x", x, x.ticks(Math.max(2, Math.floor(width / 160))), [margin.top, height - margin.bottom], time);
    lines.forEach((i, place) => {
      const y = margin.top + LINE * place + LINE / 2;
      const line = chart.append("g").attr("class", `pairs ${way(i)}`).on("pointermove", (event) => tip(event, L.name[i], [L.phase[i], L.verdict[i]].filter(Boolean).join(", "), `${time(L.before[i])}, then ${time(L.after[i])}: ${signed(more[i])}`, `± ${time(L.spread[i])}`)).on("pointerleave", untip);
      line.append("rect").attr("x", 0).attr("y", y - LINE / 2).attr("width", width).attr("height", LINE).attr("fill", "transparent");
      line.append("text").attr("x", label).attr("y", y + 4).attr("text-anchor", "end").text(cut(`${L.name[i]}${L.phase[i] === "backward" ? " (backward)" : ""}`, Math.floor(label / 7)));
      line.append("line").attr("class", "way").attr("x1", x(L.before[i])).attr("x2", x(L.after[i])).attr("y1", y).attr("y2", y);
      line.append("line").attr("class", "spread").attr("x1", x(Math.max(L.after[i] - L.spread[i], 0))).attr("x2", x(L.after[i] + L.spread[i])).attr("y1", y).attr("y2", y);
      line.append("circle").attr("class", "first").attr("cx", x(L.before[i])).attr("cy", y).attr("r", 4.5);
      line.append("circle").attr("class", "second").attr("cx", x(L.after[i])).attr("cy", y).attr("r", 4.5);
      line.append("text").attr("x", Math.max(x(L.before[i]), x(L.after[i] + L.spread[i])) + 9).attr("y", y + 4).text(share(i));
    });
  }
  flopwise.on("group", flopwise.sized(box, draw));
})();
