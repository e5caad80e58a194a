"use strict";
// What the page is about: the model, its inputs, the totals and the notes; the convention, the measure and the theme.
(() => {
  const { data, make, parts, exact, human, noun, measures } = flopwise;
  const at = (id) => document.getElementById(id);
  const title = data.model.name || data.model.source || "model";

  at("bar-model").textContent = title;
  at("model-name").textContent = title;
  at("model-about").textContent = [
    data.model.source && data.model.source !== title ? data.model.source : "",
    data.model.format, noun(flopwise.count, "layer"),
  ].filter(Boolean).join(" · ");
  const SHOWN = 4;
  const told = (list) => {
    const first = list.slice(0, SHOWN).map((t) => make("span", {}, `${t.name} `, make("small", {}, `${t.dtype} ${t.shape}`)));
    const spaced = first.flatMap((item, index) => (index ? [", ", item] : [item]));
    if (list.length > SHOWN) spaced.push(`, and ${list.length - SHOWN} more`);
    return spaced.length ? spaced : ["none"];
  };
  at("signature").append(
    make("div", {}, make("dt", {}, "in"), make("dd", {}, ...told(data.inputs))),
    make("div", {}, make("dt", {}, "out"), make("dd", {}, ...told(data.outputs))),
  );

  function card(key, name, value, unit, more = "", atLeast = false) {
    const [figure, short] = parts(value, unit);
    return make("div", { class: key === "count" ? "card main" : "card", "data-key": key, "data-value": value === null ? "null" : String(value) },
      make("div", { class: "title" }, name),
      make("div", { class: "value" }, atLeast ? "≥ " : "", figure, " ", make("small", {}, short)),
      make("div", { class: "exact" }, [`${atLeast ? "≥ " : ""}${exact(value)}`, more].filter(Boolean).join(" · ")));
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

  // As the system says, until somebody chooses.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const icons = {
    light: "M12 4V2m0 20v-2m8-8h2M2 12h2m13.7-5.7 1.4-1.4M4.9 19.1l1.4-1.4m11.4 0 1.4 1.4M4.9 4.9l1.4 1.4M16 12a4 4 0 1 1-8 0 4 4 0 0 1 8 0Z",
    dark: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5Z",
  };
  const remember = (theme) => { try { localStorage.setItem("flopwise-theme", theme); } catch { /* a page without storage */ } };
  const remembered = () => { try { return localStorage.getItem("flopwise-theme"); } catch { return null; } };
  const theme = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  function paint() {
    const now = theme();
    const icon = d3.create("svg").attr("viewBox", "0 0 24 24").attr("fill", "none").attr("stroke", "currentColor").attr("stroke-width", 2).attr("stroke-linecap", "round").attr("aria-hidden", "true");
    icon.append("path").attr("d", icons[now]);
    at("theme").replaceChildren(icon.node());
    at("theme").setAttribute("aria-label", `Colour theme: ${now}; change to ${now === "dark" ? "light" : "dark"}`);
  }
  const before = remembered();
  if (before === "light" || before === "dark") root.dataset.theme = before;
  at("theme").addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    remember(root.dataset.theme);
    paint();
  });
  dark.addEventListener("change", paint);
  paint();

  flopwise.on("counts", draw);
  draw();
})();
