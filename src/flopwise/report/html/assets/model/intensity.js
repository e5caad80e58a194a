"use strict";
// Work against work for each byte: what lies left of a device's ridge waits for memory, what lies right of it computes.
(() => {
  const { data, count, number, human, intensity, make, noun, percent, twin } = flopwise;
  const box = document.getElementById("intensity-chart");
  const L = data.layers;
  const HIGH = 300, TOP = 12, BOTTOM = 38, RIGHT = 14;

  // A dot stands for layers that are alike.
  const dots = d3.groups(d3.range(count), (layer) => twin[layer])
    .map(([layer, layers]) => ({ layer, many: layers.length, x: intensity([layer]), flops: number(L.flops[layer]) }))
    .filter((dot) => dot.x > 0 && dot.flops > 0)
    .sort((a, b) => b.flops * b.many - a.flops * a.many);
  if (!dots.length) { document.getElementById("intensity").hidden = true; return; }
  const written = (value) => (value >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3))));
  const all = intensity(d3.range(count).filter((layer) => intensity([layer]) !== null));
  document.getElementById("intensity-sub").textContent = `FLOPs of a layer against its FLOPs for each byte of inputs, weights and outputs; all together ${written(all)} FLOP per byte`;

  // The devices, and the intensity at which the chosen one is limited by arithmetic and memory alike.
  const picker = document.getElementById("device"), said = document.getElementById("intensity-ridge");
  picker.append(...data.ridges.devices.map(([name], place) => make("option", { value: String(place) }, name)));
  const device = () => (picker.value === "" ? null : data.ridges.devices[Number(picker.value)]);
  function say() {
    if (!device()) { said.textContent = ""; return; }
    const [name, peak, bandwidth, dtype] = device(), ridge = peak / bandwidth;
    const waiting = dots.filter((dot) => dot.x < ridge);
    const flops = (some) => d3.sum(some, (dot) => dot.flops * dot.many);
    const layers = (some) => d3.sum(some, (dot) => dot.many);
    said.textContent = `${name}: ${human(Math.round(peak), "FLOP/s")} in ${dtype}, ${human(Math.round(bandwidth), "B/s")}, ridge at ${written(ridge)} FLOP per byte. Memory-bound: ${layers(waiting)} of ${noun(layers(dots), "layer")}, ${percent((100 * flops(waiting)) / flops(dots))} of the FLOPs, each layer on its own with operands in memory.`;
  }

  function draw(width) {
    const narrow = width < 520, left = 80;
    const wide = ([least, most], by) => [least / by, most * by];
    const ridge = device() && device()[1] / device()[2];
    const x = d3.scaleLog(wide(d3.extent([...dots.map((dot) => dot.x), ...(ridge ? [ridge] : [])]), 1.5), [left, width - RIGHT]);
    const y = d3.scaleLog(wide(d3.extent(dots, (dot) => dot.flops), 2), [HIGH - BOTTOM, TOP]);
    const radius = d3.scaleSqrt([0, d3.max(dots, (dot) => dot.flops * dot.many)], [2.5, narrow ? 14 : 22]);
    const svg = flopwise.svg(box, width, HIGH, `FLOPs and FLOP per byte of ${noun(dots.length, "layer")}, of those that are alike one; the table of layers has the same figures.`);
    // powers of ten, no more than fit
    const tens = (scale, most) => {
      const [from, to] = scale.domain().map(Math.log10);
      const powers = d3.range(Math.ceil(from), Math.floor(to) + 1);
      return powers.filter((_, at) => at % Math.ceil(powers.length / most) === 0).map((power) => 10 ** power);
    };
    flopwise.grid(svg, "x", x, tens(x, narrow ? 4 : 9), [TOP, HIGH - BOTTOM], (tick) => (tick >= 1 ? human(Math.round(tick)) : String(Number(tick.toPrecision(1)))), ["rule", "axis"]);
    flopwise.grid(svg, "y", y, tens(y, 6), [left, width - RIGHT], (tick) => human(Math.round(tick), "FLOP"), ["rule", "axis"]);
    svg.append("text").attr("class", "axis").attr("x", width - RIGHT).attr("y", HIGH - 5).attr("text-anchor", "end").text("FLOP per byte");
    if (ridge) {
      svg.append("line").attr("class", "ridge").attr("x1", x(ridge)).attr("x2", x(ridge)).attr("y1", TOP).attr("y2", HIGH - BOTTOM);
      for (const [label, anchor, shift] of [["memory-bound", "end", -6], ["compute-bound", "start", 6]]) {
        const room = anchor === "end" ? x(ridge) - left : width - RIGHT - x(ridge);
        if (room > 100) svg.append("text").attr("class", "axis").attr("x", x(ridge) + shift).attr("y", TOP + 10).attr("text-anchor", anchor).text(label);
      }
    }
    const chosen = flopwise.state.chosen >= 0 ? twin[flopwise.state.chosen] : -1;
    svg.append("g").selectAll("circle").data(dots).join("circle").attr("class", (dot) => `intensity-dot${dot.layer === chosen ? " chosen" : ""}`)
      .attr("cx", (dot) => x(dot.x)).attr("cy", (dot) => y(dot.flops)).attr("r", (dot) => radius(dot.flops * dot.many)).style("fill", (dot) => flopwise.colourOf(dot.layer))
      .on("mousemove", (event, dot) => flopwise.tip(event, L.name[dot.layer], `${flopwise.opOf(dot.layer)} (${flopwise.kindOf(dot.layer)})`, `${written(dot.x)} FLOP per byte`, human(dot.flops, "FLOP"), dot.many > 1 ? `${dot.many} layers alike` : ""))
      .on("mouseleave", flopwise.untip)
      .on("click", (event, dot) => flopwise.choose(dot.layer, "intensity"));
  }
  const redraw = flopwise.sized(box, draw);
  flopwise.on("choose", redraw);
  picker.addEventListener("change", () => { say(); redraw(); });
})();
