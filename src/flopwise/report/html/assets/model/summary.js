"use strict";
// What the page is about: the model, its inputs, the totals and the notes; the convention and the measure.
(() => {
  const { data, make, parts, exact, human, noun, sum, measures } = flopwise;
  const at = (id) => document.getElementById(id);
  const title = data.model.name || data.model.source || "model";

  at("bar-model").textContent = title;
  at("model-name").textContent = title;
  at("model-about").textContent = [
    data.model.source && data.model.source !== title ? data.model.source : "",
    data.model.format, noun(flopwise.count, "layer"),
  ].filter(Boolean).join(" · ");
  const SHOWN = 4;
  const listed = (list) => {
    const first = list.slice(0, SHOWN).map((t) => make("span", {}, `${t.name} `, make("small", {}, `${t.dtype} ${t.shape}`)));
    const spaced = first.flatMap((item, index) => (index ? [", ", item] : [item]));
    if (list.length > SHOWN) spaced.push(`, and ${list.length - SHOWN} more`);
    return spaced.length ? spaced : ["none"];
  };
  at("signature").append(
    make("div", {}, make("dt", {}, "in"), make("dd", {}, ...listed(data.inputs))),
    make("div", {}, make("dt", {}, "out"), make("dd", {}, ...listed(data.outputs))),
  );

  function card(key, name, value, unit, more = "", atLeast = false) {
    const [figure, short] = parts(value, unit);
    return make("div", { class: key === "count" ? "card main" : "card", "data-key": key, "data-value": value === null ? "null" : String(value) },
      make("div", { class: "title" }, name),
      make("div", { class: "value" }, atLeast ? "≥ " : "", figure, " ", make("small", {}, short)),
      make("div", { class: "exact" }, [`${atLeast ? "≥ " : ""}${exact(value)}`, more].filter(Boolean).join(" · ")));
  }

  // What one training step takes beside the forward pass.
  function step(view) {
    const training = data.training;
    at("training").hidden = !training;
    if (!training) return;
    const own = view.backward && !["flops", "macs"].includes(view.name);
    const cards = [card("backward_macs", "Backward multiply-accumulates", training.backward_macs, "MAC", "", training.least), card("backward_flops", "Backward FLOPs", training.backward_flops, "FLOP", "", training.least)];
    if (own) cards.unshift(card("backward", `Backward ${view.unit}, convention ${view.name}`, String(sum(view.backward)), view.unit, "", view.backward.includes(null)));
    if (training.optimizer) cards.push(card("optimizer_flops", `FLOPs of a step of ${training.optimizer}`, training.optimizer_flops, "FLOP"));
    cards.push(card("gradient_bytes", "Gradient bytes", training.gradient_bytes, "B"));
    if (training.optimizer) cards.push(card("state_bytes", `State bytes of ${training.optimizer}`, training.state_bytes, "B"));
    cards.push(
      card("saved_bytes", "Bytes saved for the backward pass", training.saved_bytes, "B", "", !training.exact),
      card("memory_bytes", "Training memory bytes", training.memory_bytes, "B", "", !training.exact));
    at("training-cards").replaceChildren(...cards);
  }

  function draw() {
    const view = flopwise.convention();
    const totals = data.totals;
    const least = (key) => data.atLeast.includes(key);
    const cards = [card("count", `${view.unit}, convention ${view.name}`, view.total, view.unit, "", view.uncounted > 0 && view.total !== null)];
    if (view.name !== "macs") cards.push(card("macs", "Multiply-accumulates", totals.macs, "MAC", "", least("macs")));
    if (view.name !== "flops") cards.push(card("flops", "FLOPs", totals.flops, "FLOP", "", least("flops")));
    const buffers = totals.buffers ? `${human(totals.buffers)} more in buffers` : "";
    cards.push(
      card("params", "Parameters", totals.params, "", buffers),
      card("weight_bytes", "Weight bytes", totals.weight_bytes, "B"),
      card("output_bytes", "Bytes of all outputs", totals.output_bytes, "B", `${least("activations") ? "≥ " : ""}${human(totals.activations)} elements`, least("output_bytes")),
      card("peak_activation_bytes", "Peak activation bytes", totals.peak_activation_bytes, "B"),
    );
    for (const [name, value] of Object.entries(view.own)) cards.push(card(`own-${name}`, `${name} as ${view.name} defines them`, value, ""));
    at("cards").replaceChildren(...cards);
    step(view);
    at("convention-about").textContent = `Convention ${view.name}, unit ${view.unit}: ${view.summary} Source: ${view.source}`;

    const gaps = view.notes.filter((note) => note.gap);
    at("gaps").replaceChildren(...gaps.map((note) => make("p", { class: "warning", role: "note" }, note.text)));
    const rest = view.notes.filter((note) => !note.gap).map((note) => note.text);
    rest.push(...data.refused.map((other) => `Convention ${other.name} is not offered here: ${other.why}.`));
    const box = at("notes");
    box.hidden = !rest.length;
    box.querySelector("summary").textContent = noun(rest.length, "note");
    box.querySelector("ul").replaceChildren(...rest.map((text) => make("li", {}, text)));
    [...at("measure").options].forEach((option) => { option.textContent = measures[option.value].title(); });
  }

  data.conventions.forEach((view, index) => at("convention").append(make("option", { value: index }, `${view.name} (${view.unit})`)));
  at("convention").value = flopwise.state.convention;
  at("convention").addEventListener("change", (event) => flopwise.setConvention(Number(event.target.value)));
  Object.keys(measures).forEach((key) => at("measure").append(make("option", { value: key }, measures[key].title())));
  at("measure").addEventListener("change", (event) => flopwise.setMeasure(event.target.value));

  flopwise.on("counts", draw);
  draw();
})();
