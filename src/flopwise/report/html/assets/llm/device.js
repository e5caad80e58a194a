"use strict";
// What fills each device, as a bar; and the least time of a step against the tokens per second, by the number of sequences.
(() => {
  const { data, grid, tip, untip, sized, svg, human, series, time, noun } = flopwise;

  const colours = { weights: series(-1), cache: series(2), workspace: series(0) };
  const fill = data.fill, whole = d3.sum(fill, ([, bytes]) => bytes);
  const bar = document.getElementById("fill-plot");
  if (whole) sized(bar, (width) => {
    const rows = fill.length, left = 2, top = 24, thick = 30, below = 18;
    const chart = svg(bar, width, top + thick + 14 + rows * below, "What fills each device");
    const x = d3.scaleLinear([0, whole], [left, width - left]);
    chart.append("text").attr("class", "axis-name").attr("x", left).attr("y", 14).text(data.device ? `${data.device}, bytes` : "bytes");
    let before = 0;
    fill.forEach(([name, bytes], place) => {
      const colour = colours[name], title = `${human(bytes, "B")} ${name}`, y = top + thick + 24 + place * below;
      chart.append("rect").attr("class", colour ? "part" : "free").attr("fill", colour ?? "none").attr("x", x(before)).attr("y", top).attr("width", Math.max(x(before + bytes) - x(before), 1)).attr("height", thick)
        .on("pointermove", (event) => tip(event, name, human(bytes, "B"))).on("pointerleave", untip);
      chart.append("rect").attr("class", colour ? "part" : "free").attr("fill", colour ?? "none").attr("x", left).attr("y", y - 10).attr("width", 11).attr("height", 11).attr("rx", 2);
      chart.append("text").attr("x", left + 18).attr("y", y).text(title);
      before += bytes;
    });
    if (data.limit && data.limit < whole) chart.append("line").attr("class", "limit").attr("x1", x(data.limit)).attr("x2", x(data.limit)).attr("y1", top - 5).attr("y2", top + thick + 5);
  });

  const points = data.batches;
  document.getElementById("batches").hidden = !points.length;
  if (!points.length) return;
  document.getElementById("batches-sub").textContent = `Floors of a step of more and more sequences, up to the ${noun(points[points.length - 1].sequences, "sequence")} that fit; both axes logarithmic. No engine is left of the line or above it.`;
  const box = document.getElementById("batches-plot");
  sized(box, (width) => {
    const height = Math.min(380, Math.max(280, width * 0.42)), margin = { left: 76, right: 24, top: 24, bottom: 46 };
    const chart = svg(box, width, height, "Tokens per second against the time of a step");
    const scale = (values, range) => d3.scaleLog([d3.min(values) / 1.2, d3.max(values) * 1.2], range);
    const x = scale(points.map((p) => p.ns), [margin.left, width - margin.right]), y = scale(points.map((p) => p.rate), [height - margin.bottom, margin.top]);
    // powers of ten, or where there are hardly any, also their doubles and fives
    const ticks = (axis, room) => {
      const all = axis.ticks(), powers = all.filter((v) => Math.abs(Math.log10(v) % 1) < 1e-9), some = all.filter((v) => [1, 2, 5].includes(Math.round(v / 10 ** Math.floor(Math.log10(v) + 1e-9))));
      const chosen = powers.length > 1 ? powers : some;
      return chosen.filter((_, i) => i % Math.ceil(chosen.length / room) === 0);
    };
    grid(chart, "x", x, ticks(x, Math.max(2, Math.floor(width / 110))), [margin.top, height - margin.bottom], time);
    grid(chart, "y", y, ticks(y, 6), [margin.left, width - margin.right], (tick) => human(Math.round(tick)));
    chart.append("text").attr("class", "axis-name").attr("x", width - margin.right).attr("y", height - 8).attr("text-anchor", "end").text("time of a token, at least");
    chart.append("text").attr("class", "axis-name").attr("x", 4).attr("y", 14).text("max tokens per second, all sequences");
    chart.append("path").attr("class", "curve").attr("stroke", series(0)).attr("d", d3.line((p) => x(p.ns), (p) => y(p.rate))(points));
    chart.selectAll(null).data(points).join("circle").attr("class", (p) => p.sequences === data.asked ? "point asked" : "point").attr("r", 4).attr("fill", series(0)).attr("cx", (p) => x(p.ns)).attr("cy", (p) => y(p.rate))
      .on("pointermove", (event, p) => tip(event, noun(p.sequences, "sequence"), `a token every ${time(p.ns)}`, `${human(Math.round(p.rate))} tokens/s together`)).on("pointerleave", untip);
    // names of points where there is room for them, the last one first
    let low = -Infinity;
    for (const point of points.slice().reverse()) {
      const left = x(point.ns), top = y(point.rate), end = left > width / 2;
      if (top - low < 16) continue;
      chart.append("text").attr("x", left + (end ? -8 : 8)).attr("y", top + (end ? -6 : 12)).attr("text-anchor", end ? "end" : "start").text(point.sequences.toLocaleString("en-US"));
      low = top;
    }
  });
})();
