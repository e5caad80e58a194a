"use strict";
// The chosen layer: all its figures in each model.
(() => {
  const { data, models, conventions, make, exact, unknown, title, values, gainsOf, rise, signed, shareText, way, opOf, nameOf, anyName, badge } = flopwise;
  const box = document.getElementById("chosen");
  const L = data.layers;

  function draw() {
    const i = flopwise.state.chosen;
    box.hidden = i < 0;
    if (i < 0) return;
    const about = models.map((model) => make("div", {}, make("dt", {}, badge(model), ` ${model.label}`),
      make("dd", {}, nameOf(i, model.at) === null ? "no such layer" : [nameOf(i, model.at), L.outputs[i][model.at] >= 0 ? data.shapes[L.outputs[i][model.at]] : "", data.ways[L.ways[i][model.at]] ? `matched by ${data.ways[L.ways[i][model.at]]}` : ""].filter(Boolean).join(" · "))));
    const head = make("tr", {}, make("th", {}, ""), ...models.flatMap((model) => [make("th", { class: "num" }, model.letter), ...(model.at ? [make("th", { class: "num" }, `${model.letter} − A`), make("th", { class: "num" }, "%")] : [])]));
    const lines = data.compared.filter((figure) => conventions.length > 1 || figure !== conventions[0]).map((figure) => make("tr", {}, make("th", { scope: "row" }, title(figure)), ...models.flatMap((model) => {
      const more = gainsOf(model.at, figure)[i];
      return [make("td", { class: "num" }, exact(values(model.at, figure)[i])), ...(model.at ? [make("td", { class: `num ${way(more)}` }, signed(more)), make("td", { class: `num ${way(more)}` }, unknown(more) ? "" : shareText(rise(values(0, figure)[i], more)))] : [])];
    })));
    box.replaceChildren(
      make("div", { class: "top" }, make("div", { class: "who" }, anyName(i), make("small", {}, opOf(i))), make("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => flopwise.choose(-1) }, "×")),
      make("dl", {}, ...about), make("div", { class: "scroll" }, make("table", { class: "figures" }, make("thead", {}, head), make("tbody", {}, ...lines))));
    flopwise.cue(box.querySelector(".scroll"));
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && flopwise.state.chosen >= 0) flopwise.choose(-1); });
  flopwise.on("choose", draw);
})();
