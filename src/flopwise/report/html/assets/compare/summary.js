"use strict";
// What is compared, the totals side by side, and the notes; the choice of the measure and of the model.
(() => {
  const { data, models, others, conventions, make, parts, exact, number, noun, unknown, title, unit, gain, rise, bound, shareText, signed, way, badge } = flopwise;
  const at = (id) => document.getElementById(id);
  const joined = models.length > 3 ? `${models[0].label} vs ${noun(others.length, "other")}` : models.map((model) => model.label).join(" vs ");

  at("bar-model").textContent = joined;
  at("title").textContent = joined;
  const SHOWN = 3;
  models.forEach((model) => {
    const inputs = model.inputs.slice(0, SHOWN).map((input) => `${input.name} ${input.dtype} ${input.shape}`);
    if (model.inputs.length > SHOWN) inputs.push(`${model.inputs.length - SHOWN} more`);
    const source = model.source && !model.source.startsWith("<") ? model.source : model.name;
    at("models").append(make("li", {}, badge(model), make("span", {},
      make("strong", {}, model.label), " ",
      make("small", {}, [source === model.label ? "" : source, model.format, noun(model.layers, "layer"), `in: ${inputs.join(", ") || "none"}`, conventions.length > 1 ? `convention ${model.convention.name}` : ""].filter(Boolean).join(" · ")))));
  });

  // A card: the figure of each model with a bar, and by how much it differs.
  function card(figure) {
    const entry = data.totals[figure];
    const largest = d3.max(entry.values, number) || 0;
    const lines = models.map((model) => {
      const [value, short] = parts(entry.values[model.at], unit(figure, model));
      const more = model.at ? gain(entry, model.at, figure) : "";
      const bar = make("i", {});
      bar.style.width = `${largest ? (100 * number(entry.values[model.at])) / largest : 0}%`;
      bar.style.background = model.colour;
      return make("div", { class: "line", "data-model": model.at, "data-value": String(entry.values[model.at]), title: `${model.label}: ${bound(entry, model.at)}${exact(entry.values[model.at])}` },
        badge(model),
        make("span", { class: "value" }, bound(entry, model.at), value, " ", make("small", {}, short)),
        make("span", { class: `by ${way(more)}` }, model.at ? (unknown(more) ? "?" : shareText(rise(entry.values[0], more)) || signed(more)) : ""),
        make("span", { class: "track" }, bar));
    });
    return make("div", { class: "card versus", "data-key": figure }, make("div", { class: "title" }, title(figure)), ...lines);
  }
  const first = [models[0].convention.name, conventions.length].join() === "macs,1" ? [] : ["macs"];
  at("cards").append(...["count", ...first, "params", "weight_bytes", "output_bytes", "peak_activation_bytes"].map(card));

  models.filter((model, index) => models.findIndex((other) => other.convention.name === model.convention.name) === index).forEach((model) => {
    const { name, unit: counted, summary, source } = model.convention;
    at("conventions").append(make("p", { class: "about" }, `Convention ${name}, unit ${counted}: ${summary} Source: ${source}`));
  });

  const who = (note) => (note.models.length ? `${note.text} [${note.models.map((index) => models[index].label).join(", ")}]` : note.text);
  at("gaps").append(...data.notes.filter((note) => note.gap).map((note) => make("p", { class: "warning", role: "note" }, who(note))));
  const rest = data.notes.filter((note) => !note.gap);
  at("notes").hidden = !rest.length;
  at("notes").querySelector("summary").textContent = noun(rest.length, "note");
  at("notes").querySelector("ul").append(...rest.map((note) => make("li", {}, who(note))));

  // All totals with every digit.
  document.querySelector(".two.even").classList.toggle("stacked", models.length > 2);
  const head = make("tr", {}, make("th", { scope: "col" }, "total"), ...models.flatMap((model) => [
    make("th", { scope: "col", class: "num", title: model.label }, badge(model)),
    ...(model.at ? [make("th", { scope: "col", class: "num" }, `${model.letter} − A`), make("th", { scope: "col", class: "num" }, "%")] : []),
  ]));
  const lines = Object.keys(data.totals).filter((figure) => conventions.length > 1 || figure !== conventions[0]).map((figure) => {
    const entry = data.totals[figure];
    return make("tr", { "data-key": figure }, make("th", { scope: "row" }, title(figure)), ...models.flatMap((model) => {
      const more = model.at ? gain(entry, model.at, figure) : "";
      return [
        make("td", { class: "num", "data-model": model.at }, bound(entry, model.at) + exact(entry.values[model.at])),
        ...(model.at ? [make("td", { class: `num ${way(more)}`, "data-difference": model.at }, signed(more)), make("td", { class: `num ${way(more)}` }, shareText(rise(entry.values[0], more)))] : []),
      ];
    }));
  });
  at("totals-table").append(make("table", { class: "figures" }, make("thead", {}, head), make("tbody", {}, ...lines)));
  flopwise.cue(at("totals-table"));
  at("totals-sub").textContent = "differences are to A";

  data.compared.forEach((figure) => {
    if (figure !== "count" && conventions.length === 1 && figure === conventions[0]) return;
    at("measure").append(make("option", { value: figure }, title(figure)));
  });
  if (![...at("measure").options].some((option) => option.value === flopwise.state.measure)) flopwise.state.measure = "count";
  at("measure").value = flopwise.state.measure;
  at("measure").addEventListener("change", (event) => flopwise.setMeasure(event.target.value));
  others.forEach((model) => at("other").append(make("option", { value: model.at }, `${model.letter}: ${model.label}`)));
  at("other-pick").hidden = others.length < 2;
  at("other").addEventListener("change", (event) => flopwise.setOther(Number(event.target.value)));
})();
