"use strict";
// Every model as a dot, by two figures on logarithmic axes, and the front of those that no other beats.
(() => {
  const { data, make, number, human, exact, tip, untip, sized, svg, noun } = flopwise;
  const { columns, options } = flopwise.zoo;
  const get = columns(data.models);
  const figures = {
    params: ["parameters", ""], weight_bytes: ["weight bytes", "B"], peak_activation_bytes: ["peak activation memory", "B"],
    macs: ["MACs", ""], flops: ["FLOPs", ""], layers: ["layers", ""],
  };
  const names = Object.fromEntries(Object.entries(figures).map(([key, [name]]) => [key, name]));
  const [across, up, kind, find] = ["scatter-x", "scatter-y", "scatter-front", "scatter-find"].map((id) => document.getElementById(id));
  options(across, names, "params");
  options(up, names, "macs");
  options(kind, { most: "high x, low y", least: "low x, low y", none: "none" }, "most");

  // As in front() of flopwise.analyses.zoo.overview.
  function front(dots, most) {
    const order = [...dots].sort((a, b) => (most ? b.x - a.x : a.x - b.x) || a.y - b.y);
    let best = Infinity;
    return order.filter((dot) => dot.y < best && ((best = dot.y), true)).sort((a, b) => a.x - b.x);
  }

  const families = d3.rollups(data.models.rows, (rows) => rows.length, get.family).sort((a, b) => b[1] - a[1]).slice(0, 7).map(([family]) => family);
  const shade = (row) => flopwise.series(families.indexOf(get.family(row)));
  const key = document.getElementById("scatter-key");
  key.append(...[...families, ...(families.length < new Set(data.models.rows.map(get.family)).size ? [null] : [])].map((family, place) => {
    const dot = make("i", { class: "dot" });
    dot.style.background = flopwise.series(family === null ? -1 : place);
    return make("span", {}, dot, family === null ? "other families" : family || "no family");
  }));
  const total = number(new Map(data.totals).get("models"));
  document.getElementById("costs-sub").textContent = `A dot is a model${total > data.models.rows.length ? `; the ${exact(data.models.rows.length)} with the most MACs of ${exact(total)} are shown` : ""}. Both axes logarithmic.`;

  const box = document.getElementById("scatter-plot");
  function draw(width) {
    const [nameX, unitX] = figures[across.value], [nameY, unitY] = figures[up.value];
    const dots = data.models.rows.map((row) => ({ row, x: number(get[across.value](row)), y: number(get[up.value](row)) })).filter((dot) => dot.x > 0 && dot.y > 0);
    const hint = document.getElementById("scatter-hint");
    if (!dots.length) { box.replaceChildren(); hint.textContent = "No model has both figures."; return; }
    const height = Math.min(600, Math.max(340, width * 0.5));
    const narrow = width < 560;
    const margin = { left: narrow ? 58 : 72, right: 16, top: 14, bottom: 44 };
    const x = d3.scaleLog([d3.min(dots, (dot) => dot.x) / 1.3, d3.max(dots, (dot) => dot.x) * 1.3], [margin.left, width - margin.right]);
    const y = d3.scaleLog([d3.min(dots, (dot) => dot.y) / 1.3, d3.max(dots, (dot) => dot.y) * 1.3], [height - margin.bottom, margin.top]);
    const kept = kind.value === "none" ? [] : front(dots, kind.value === "most");
    const chart = svg(box, width, height, `${nameY} against ${nameX} of ${noun(dots.length, "model")}`);
    const decades = (scale) => scale.ticks(8).filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9);
    flopwise.grid(chart, "x", x, decades(x), [margin.top, height - margin.bottom], (tick) => human(Math.round(tick), unitX));
    flopwise.grid(chart, "y", y, decades(y), [margin.left, width - margin.right], (tick) => human(Math.round(tick), unitY));
    chart.append("text").attr("x", width - margin.right).attr("y", height - 8).attr("text-anchor", "end").text(`${nameX} →`);
    chart.append("text").attr("x", margin.left + 6).attr("y", margin.top + 10).text(`↑ ${nameY}`);
    chart.append("path").attr("class", "front").attr("d", d3.line().x((dot) => x(dot.x)).y((dot) => y(dot.y)).curve(kind.value === "most" ? d3.curveStepBefore : d3.curveStepAfter)(kept));
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = (dot) => words.length > 0 && words.every((word) => `${get.name(dot.row)} ${get.family(dot.row)}`.toLowerCase().includes(word));
    const fronts = new Set(kept);
    chart.append("g").selectAll("circle").data(dots).join("circle")
      .attr("class", (dot) => `dot${fronts.has(dot) ? " kept" : ""}${found(dot) ? " found" : words.length ? " dim" : ""}`)
      .attr("cx", (dot) => x(dot.x)).attr("cy", (dot) => y(dot.y)).attr("r", (dot) => (fronts.has(dot) || found(dot) ? 5 : 3.6)).attr("fill", (dot) => shade(dot.row))
      .on("pointermove", (event, dot) => tip(event, get.name(dot.row), [get.family(dot.row), get.year(dot.row)].filter(Boolean).join(", "), ...Object.entries(figures).map(([key, [name, unit]]) => `${name}: ${human(get[key](dot.row), unit)}`), get.exact(dot.row) ? "" : "figures are bounds"))
      .on("pointerleave", untip);
    if (!narrow) {
      const named = chart.append("g");
      let last = -Infinity;
      for (const dot of kept) {
        if (x(dot.x) - last < 96) continue;
        last = x(dot.x);
        const end = last > width - 150;
        named.append("text").attr("class", "name").attr("x", last + (end ? -8 : 8)).attr("y", y(dot.y) + 14).attr("text-anchor", end ? "end" : "start").text(flopwise.cut(String(get.name(dot.row)).split("/").pop(), 22));
      }
    }
    const marked = words.length ? `, ${exact(dots.filter(found).length)} marked` : "";
    hint.textContent = `${noun(dots.length, "model")}${kept.length ? `, ${exact(kept.length)} on the front` : ""}${marked}.`;
  }
  const again = sized(box, draw);
  for (const control of [across, up, kind]) control.addEventListener("change", again);
  find.addEventListener("input", again);
})();
