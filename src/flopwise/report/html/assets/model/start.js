"use strict";
// The chosen layer: its figures, and the ways to it.
(() => {
  const { data, make, exact, percent, shapesOf, opOf } = flopwise;
  const box = document.getElementById("chosen");
  const L = data.layers;

  function draw() {
    const i = flopwise.state.chosen;
    box.hidden = i < 0;
    if (i < 0) return;
    const view = flopwise.convention();
    const facts = [
      [flopwise.counted(view), `${exact(view.counts[i])}${view.counts[i] === "" ? " (not listed)" : `, ${percent(flopwise.share(i, "count"))}`}`],
      ["MACs", exact(L.macs[i])], ["FLOPs", exact(L.flops[i])], ["params", exact(L.params[i])], ["buffers", exact(L.buffers[i])],
      ["weight bytes", exact(L.weight_bytes[i])], ["input bytes", exact(L.input_bytes[i])], ["output bytes", exact(L.output_bytes[i])],
      ...(data.training ? [["backward MACs", exact(L.backward_macs[i])], ["backward FLOPs", exact(L.backward_flops[i])], ["saved bytes", exact(L.saved_bytes[i])]] : []),
      ["inputs", shapesOf(L.inputs[i]) || "none"], ["weights", shapesOf(L.weights[i])], ["outputs", shapesOf(L.outputs[i]) || "none"],
      ["module", L.scope[i] || ""], ["in the file", L.origin[i] || ""], ["runs", i in L.times ? exact(L.times[i]) : ""], ["note", L.note[i] || ""],
    ].filter(([, text]) => text !== "");
    box.replaceChildren(
      make("div", { class: "top" },
        make("div", { class: "who" }, L.name[i], make("small", {}, opOf(i))),
        make("button", { type: "button", id: "to-graph", onclick: () => flopwise.emit("show-graph", i) }, "Show in graph"),
        make("button", { type: "button", id: "to-table", onclick: () => flopwise.emit("show-table", i) }, "Show in table"),
        make("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => flopwise.choose(-1) }, "×")),
      make("dl", {}, ...facts.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text)))));
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && flopwise.state.chosen >= 0) flopwise.choose(-1); });
  flopwise.on("choose", draw);
  flopwise.on("counts", draw);
})();
