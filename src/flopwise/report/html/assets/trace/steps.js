"use strict";
// The time of each step of the trace, and of it that in which any lane is at work.
(() => {
  const { data, tip, untip, sized, svg, time, noun } = flopwise;
  const { name, window: windows, wall, shown } = data.steps;
  const box = document.getElementById("steps-plot");
  if (name.length < 2) return;
  document.getElementById("steps").hidden = false;
  const sorted = [...windows].sort((a, b) => a - b);
  document.getElementById("steps-sub").textContent = `${noun(name.length, "step")}: median ${time(d3.quantile(sorted, 0.5))}, half of them between ${time(d3.quantile(sorted, 0.25))} and ${time(d3.quantile(sorted, 0.75))}. Dark: while any lane is at work. ${shown < 0 ? "This page adds all steps up." : `This page shows ${name[shown]}.`}`;
  function draw(width) {
    const height = 150, margin = { left: 74, right: 8, top: 10, bottom: 12 };
    const x = d3.scaleLinear([0, name.length], [margin.left, width - margin.right]);
    const y = d3.scaleLinear([0, d3.max(windows) || 1], [height - margin.bottom, margin.top]);
    const chart = svg(box, width, height, `Times of ${name.length} steps, from ${time(sorted[0])} to ${time(sorted[sorted.length - 1])}`);
    flopwise.grid(chart, "y", y, y.ticks(3), [margin.left, width - margin.right], time);
    const room = x(1) - x(0) > 4 ? 1 : 0;
    const bars = (values) => values.map((value, at) => `M${x(at) + room},${y(0)}V${y(value)}H${x(at + 1) - room}V${y(0)}Z`).join("");
    chart.append("path").attr("class", "window").attr("d", bars(windows));
    chart.append("path").attr("class", "wall").attr("d", bars(wall));
    if (shown >= 0) chart.append("rect").attr("class", "shown").attr("x", x(shown)).attr("y", y(windows[shown])).attr("width", Math.max(x(1) - x(0), 1)).attr("height", y(0) - y(windows[shown]));
    chart.on("pointermove", (event) => {
      const at = Math.floor(x.invert(d3.pointer(event)[0] ));
      if (at >= 0 && at < name.length) tip(event, name[at], time(windows[at]), `${time(wall[at])} at work, ${time(windows[at] - wall[at])} of gaps`); else untip();
    }).on("pointerleave", untip);
  }
  sized(box, draw);
})();
