"use strict";
// The first model above the line and another one below it, layer by layer as they belong together; under them, how
// much more the other one has.
(() => {
  const { data, count, models, number, human, exact, title, unit, nameOf, anyName, opOf, shortly, gainsOf, values } = flopwise;
  const box = document.getElementById("strips");
  const HIGH = 84, GAP = 26, SIDE = 4;
  const THIN = 1.15, BAND = 3; // pixels of the thinnest bar of a layer, and of one for several
  const size = (more) => (typeof more === "bigint" ? Number(more) : 0);

  function draw(width) {
    const other = models[flopwise.state.other], figure = flopwise.state.measure;
    const more = gainsOf(other.at);
    const inner = width - 2 * SIDE;
    const per = inner / count >= THIN ? 1 : Math.ceil((BAND * count) / inner);
    const bins = Math.ceil(count / per);
    const x = (layer) => SIDE + (layer / (bins * per)) * inner;
    const wide = Math.max(x(per) - x(0) - (per === 1 && x(1) - x(0) > 4 ? 1 : 0), 0.6);
    document.getElementById("depth-sub").textContent = `${title(figure)}, ${per === 1 ? "one bar per layer" : `the mean of ${per} neighbours and, lighter, the most of them`}: A above the line, ${other.letter} below it, then ${other.letter} − A`;
    const height = 3 * HIGH + 2 * GAP + 32;
    const svg = flopwise.svg(box, width, height, `${title(figure)} of the layers of A and ${other.letter} in the order of execution; the table of layers has the same figures.`);
    // Of the layers of a bar the mean, over a few bars so that a period of layers does not flicker, the least and the most.
    const binned = (of) => {
      const bars = d3.range(bins).map((bin) => d3.range(bin * per, Math.min(count, (bin + 1) * per)).map(of));
      const near = per > 1 ? 3 : 0;
      return bars.map((list, bin) => ({ mean: d3.mean(bars.slice(Math.max(0, bin - near), bin + near + 1).flat()), least: Math.min(0, d3.min(list)), most: Math.max(0, d3.max(list)) }));
    };
    const [first, second] = [values(0), values(other.at)].map((list) => binned((layer) => number(list[layer])));
    const change = binned((layer) => size(more[layer]));
    const largest = d3.max([...first, ...second], (bar) => bar.most) || 0, most = d3.max(change, (bar) => Math.max(bar.most, -bar.least)) || 0;

    // Bars from a line, upwards where the value is above 0.
    function bars(list, line, scale, colour, up = 1) {
      if (per > 1) { part(list.map((bar) => bar.most), line, scale, colour, up, "band"); part(list.map((bar) => bar.least), line, scale, colour, up, "band"); }
      part(list.map((bar) => bar.mean), line, scale, colour, up, "strip");
      svg.append("line").attr("class", "rule").attr("x1", SIDE).attr("x2", width - SIDE).attr("y1", line + 0.5).attr("y2", line + 0.5);
    }
    function part(list, line, scale, colour, up, kind) {
      const paths = new Map();
      list.forEach((value, bin) => {
        if (!value) return;
        const high = Math.max((Math.abs(value) / scale) * (HIGH - 4), 0.75) * Math.sign(value) * up;
        const fill = colour(value);
        paths.set(fill, `${paths.get(fill) || ""}M${x(bin * per).toFixed(1)},${line}v${(-high).toFixed(1)}h${wide.toFixed(1)}v${high.toFixed(1)}z`);
      });
      const strip = svg.append("g").attr("class", "strip");
      paths.forEach((path, fill) => strip.append("path").attr("class", kind).attr("d", path).style("fill", fill));
    }
    const label = (y, text, scale) => {
      svg.append("text").attr("x", SIDE).attr("y", y).attr("class", "strong").text(text);
      svg.append("text").attr("x", width - SIDE).attr("y", y).attr("text-anchor", "end").attr("class", "axis").text(scale);
    };
    const middle = GAP + HIGH, low = middle + HIGH + GAP;
    const half = HIGH / 2;
    const nothing = (text) => (more.some((value) => typeof value !== "bigint" && value !== "") ? "not known in numbers" : text);
    const short = (value) => human(Math.round(value), unit(figure, models[0]));
    label(14, flopwise.cut(`A: ${models[0].label}`, 60), largest ? `top of the scale ${short(largest)}` : nothing("none"));
    bars(first, middle, largest || 1, () => models[0].colour);
    bars(second, middle, largest || 1, () => other.colour, -1);
    label(low - 4, flopwise.cut(`${other.letter}: ${other.label}`, 60), "");
    label(low + 22, `${other.letter} − A`, most ? `top of the scale ${short(most)}` : nothing("no difference"));
    bars(change, low + 34 + half, 2 * (most || 1), (value) => (value > 0 ? "var(--mark)" : "var(--k-5)"));

    const mark = svg.append("line").attr("class", "chosen-line").attr("y1", GAP).attr("y2", height).style("display", "none");
    const cross = svg.append("line").attr("class", "crosshair").attr("y1", GAP).attr("y2", height).style("display", "none");
    const layerAt = (event) => Math.max(0, Math.min(count - 1, Math.floor(((d3.pointer(event, svg.node())[0] - SIDE) / inner) * bins * per)));
    const centre = (layer) => (x(layer) + x(layer + 1)) / 2;
    if (flopwise.state.chosen >= 0) mark.attr("x1", centre(flopwise.state.chosen)).attr("x2", centre(flopwise.state.chosen)).style("display", null);
    svg.append("rect").attr("width", width).attr("height", height).style("fill", "transparent").style("cursor", "pointer")
      .on("mousemove", (event) => {
        const layer = layerAt(event);
        cross.attr("x1", centre(layer)).attr("x2", centre(layer)).style("display", null);
        const lines = [models[0], other].map((model) => `${model.letter}: ${nameOf(layer, model.at) === null ? "no such layer" : human(values(model.at)[layer], unit(figure, model))}`);
        flopwise.tip(event, anyName(layer), opOf(layer), title(figure), ...lines, `${other.letter} − A: ${shortly(more[layer])}`);
      })
      .on("mouseleave", () => { cross.style("display", "none"); flopwise.untip(); })
      .on("click", (event) => flopwise.choose(layerAt(event), "depth"));
  }

  if (!count) return;
  const redraw = flopwise.sized(box, draw);
  flopwise.on("measure", redraw);
  flopwise.on("choose", redraw);
})();
