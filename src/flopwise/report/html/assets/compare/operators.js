"use strict";
// What each operator adds up to in each model.
(() => {
  const { data, models, make, number, human, exact, noun, unknown, title, unit, gain, rise, bound, shareText, shortly, way, badge } = flopwise;
  const MOST = models.length > 2 ? 8 : 4;

  const times = (value) => (value === "" ? "none" : `×${exact(value)}`);

  function draw() {
    const figure = flopwise.state.measure;
    const of = (line) => line[figure];
    const size = (line) => d3.max(of(line).values, number);
    const lines = [...data.operators].sort((a, b) => size(b) - size(a) || of(b).values.filter(unknown).length - of(a).values.filter(unknown).length);
    const largest = d3.max(lines, size) || 0;
    const rows = lines.slice(0, lines.length > MOST + 1 ? MOST : lines.length).map((line) => {
      const name = data.ops[line.op];
      const many = [...new Set(models.map((model) => exact(line.layers.values[model.at])))];
      return make("div", { class: "op-line", "data-op": name },
        make("div", { class: "op-name" }, make("button", { type: "button", class: "op", title: `Show the layers with ${name}`, onclick: () => flopwise.emit("filter-op", line.op) }, name), " ",
          make("span", { class: "muted" }, many.length > 1 ? models.map((model) => `${model.letter} ${times(line.layers.values[model.at])}`).join(", ") : times(line.layers.values[0]))),
        ...models.flatMap((model) => {
          const entry = of(line), value = entry.values[model.at];
          const more = model.at ? gain(entry, model.at, figure) : "";
          const fill = make("div", { class: "fill" });
          fill.style.width = `${largest ? (100 * number(value)) / largest : 0}%`;
          fill.style.background = model.colour;
          if (!number(value)) fill.style.display = "none";
          return [
            badge(model), make("div", { class: "track" }, fill),
            make("span", { class: "num", title: bound(entry, model.at) + exact(value) }, bound(entry, model.at) + human(value, unit(figure, model))),
            make("span", { class: `num ${way(more)}` }, model.at ? shortly(more) : ""),
            make("span", { class: `num ${way(more)}` }, model.at && !unknown(more) ? shareText(rise(entry.values[0], more)) : ""),
          ];
        }));
    });
    const rest = lines.slice(rows.length);
    const others = models.map((model) => {
      const list = rest.map((line) => of(line));
      const least = list.some((entry) => unknown(entry.values[model.at]) || bound(entry, model.at)) ? "≥ " : "";
      return `${model.letter} ${least}${human(Math.round(d3.sum(list, (entry) => number(entry.values[model.at]))), unit(figure, model))}`;
    });
    document.getElementById("operator-bars").replaceChildren(...rows, ...(rest.length ? [make("p", { class: "sub rest" }, `and ${noun(rest.length, "smaller operator")}: ${others.join(", ")}`)] : []));
    document.getElementById("operators-sub").textContent = title(figure);
  }

  flopwise.on("measure", draw);
  draw();
})();
