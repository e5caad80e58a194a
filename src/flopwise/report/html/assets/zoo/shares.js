"use strict";
// Operators as parts of bars, one bar for a family or a year.
(() => {
  const { data, make, number, human, percent, tip, untip, sized, svg, noun } = flopwise;
  const { columns, heaviest, options } = flopwise.zoo;
  const measure = document.getElementById("shares-of");
  options(measure, { macs: "MACs", flops: "FLOPs", layers: "layers", params: "parameters" }, "layers");
  const FAMILIES = 24;
  const key = document.getElementById("shares-key");

  const shown = () => heaviest(measure.value).slice(0, 7);
  const colour = (ops, op) => flopwise.series(ops.indexOf(op));

  // Name of each bar -> the sizes of its parts, in the order of the colours.
  function bars(table, name) {
    const get = columns(table);
    const ops = shown();
    return d3.groups(table.rows, get[name]).map(([label, rows]) => {
      const sizes = ops.map((op) => [op, d3.sum(rows.filter((row) => get.op(row) === op), (row) => number(get[measure.value](row)))]);
      const whole = d3.sum(rows, (row) => number(get[measure.value](row)));
      const rest = whole - d3.sum(sizes, (pair) => pair[1]);
      return { label: String(label) || "none", whole, parts: [...sizes, ["other operators", rest]] };
    }).filter((bar) => bar.whole > 0);
  }

  function drawing(box, rows, label) {
    return (width) => {
      const list = rows();
      const ops = shown();
      if (!list.length) { box.textContent = "Nothing to share."; return; }
      const left = Math.min(150, width * 0.36), line = 22;
      const height = list.length * line + 26;
      const x = d3.scaleLinear([0, 1], [left, width - 58]);
      const chart = svg(box, width, height, `${label}: ${noun(list.length, "bar")}`);
      list.forEach((bar, place) => {
        const top = 2 + place * line;
        chart.append("text").attr("x", left - 8).attr("y", top + 14).attr("text-anchor", "end").text(flopwise.cut(bar.label, Math.floor(left / 7)));
        let at = 0;
        for (const [op, size] of bar.parts) {
          if (!size) continue;
          const share = size / bar.whole;
          chart.append("rect").attr("class", "share").attr("x", x(at)).attr("y", top).attr("width", Math.max(x(at + share) - x(at), 0)).attr("height", line - 4).attr("fill", colour(ops, op))
            .on("pointermove", (event) => tip(event, `${bar.label}: ${op}`, `${percent(100 * share)} of ${human(Math.round(bar.whole))}`)).on("pointerleave", untip);
          at += share;
        }
        chart.append("text").attr("x", width - 52).attr("y", top + 14).text(human(Math.round(bar.whole)));
      });
      [0, 0.5, 1].forEach((tick) => chart.append("text").attr("x", x(tick)).attr("y", height - 6).attr("text-anchor", "middle").text(`${100 * tick} %`));
    };
  }
  const families = () => bars(data.by_family, "family").sort((a, b) => b.whole - a.whole).slice(0, FAMILIES);
  const years = () => bars(data.by_year, "year").sort((a, b) => d3.ascending(a.label, b.label));
  const count = new Set(data.by_family.rows.map(columns(data.by_family).family)).size;
  document.getElementById("shares-family-title").textContent = count > FAMILIES ? `By family, the largest ${FAMILIES} of ${count}` : "By family";
  document.getElementById("operators-sub").textContent = "A bar is all of a family or a year; its parts are the shares of the operators.";
  const legend = () => key.replaceChildren(...[...shown(), "other operators"].map((op) => {
    const dot = make("i", { class: "dot" });
    dot.style.background = colour(shown(), op);
    return make("span", {}, dot, op);
  }));
  const [year, family] = ["shares-year", "shares-family"].map((id) => document.getElementById(id));
  legend();
  const draws = [sized(year, drawing(year, years, "Operators by year")), sized(family, drawing(family, families, "Operators by family"))];
  measure.addEventListener("change", () => { legend(); draws.forEach((draw) => draw()); });
})();
