"use strict";
// The waterfall: from one time, step by step, to another.
(() => {
  const { data, tip, untip, sized, svg, cut, time } = flopwise;
  const box = document.getElementById("waterfall-plot");
  const steps = data.waterfall;

  function draw(width) {
    const line = 26, label = Math.min(260, width * 0.34), margin = { top: 6, right: 84 };
    const height = margin.top + line * steps.length + 6;
    const x = d3.scaleLinear([0, d3.max(steps, (step) => Math.max(step.from, step.to)) || 1], [label + 10, width - margin.right]);
    const chart = svg(box, width, height, `Waterfall of ${steps.length} steps to ${time(steps[steps.length - 1]?.to)}`);
    steps.forEach((step, place) => {
      const top = margin.top + line * place, [low, high] = [Math.min(step.from, step.to), Math.max(step.from, step.to)];
      const kind = step.kind === "sum" ? "bar-sum" : step.to >= step.from ? "bar-loss" : "bar-gain";
      chart.append("text").attr("x", label).attr("y", top + 17).attr("text-anchor", "end").text(cut(step.label, Math.floor(label / 7)));
      chart.append("rect").attr("class", kind).attr("x", x(low)).attr("y", top + 4).attr("width", Math.max(1, x(high) - x(low))).attr("height", line - 8).attr("rx", 2)
        .on("pointermove", (event) => tip(event, step.label, step.kind === "sum" ? time(step.to) : `${step.to >= step.from ? "+" : "-"} ${time(high - low)}`)).on("pointerleave", untip);
      chart.append("text").attr("x", x(high) + 6).attr("y", top + 17).text(step.kind === "sum" ? time(step.to) : `${step.to >= step.from ? "+" : "−"}${time(high - low)}`);
      if (place + 1 < steps.length) chart.append("line").attr("class", "bar-mark").attr("x1", x(step.to)).attr("x2", x(step.to)).attr("y1", top + 4).attr("y2", top + line + 4);
    });
  }
  sized(box, draw);
})();
