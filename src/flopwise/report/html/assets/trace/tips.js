"use strict";
// What is said of a layer and of a module beside the pointer, and of the chosen layer below.
Object.assign(flopwise, (() => {
  const { data, make, tip, time, human, percent, noun, unknown, number, opOf } = flopwise;
  const L = data.layers, box = document.getElementById("chosen");
  const column = (key, i) => data.columns[key]?.[i] ?? "";
  const share = (ns) => percent(data.covered ? (100 * ns) / data.covered : 0);
  const rate = (i) => (number(column("gflops", i)) ? human(Math.round(1e9 * column("gflops", i)), "FLOP/s") : "");
  const over = (i) => (column("time/floor", i) ? `${Number(column("time/floor", i).toPrecision(3))} times the least time on the device` : "");
  const work = (i) => (number(L.flops[i]) ? human(L.flops[i], "FLOP") : "");
  const segment = (i) => (L.inside[i] ? `${noun(L.inside[i].length, "layer")} in one: ${L.inside[i].slice(0, 4).join(", ")}${L.inside[i].length > 4 ? " …" : ""}` : "");
  // The line that has the time of a layer: its own, or that of its segment.
  const segments = new Map(Object.entries(L.inside).flatMap(([i, names]) => names.map((name) => [name, Number(i)])));
  const lineOf = (i) => (L.time[i] === "" ? segments.get(L.name[i]) ?? i : i);
  const says = (i) => [`${L.time[i] === "" ? `its time is in ${L.name[lineOf(i)]}` : `${time(L.time[i])} in all, ${share(L.time[i])} of the trace`}`, [work(i), rate(i)].filter(Boolean).join(", "), over(i), segment(i)];

  function layerTip(event, i) { tip(event, L.name[i], L.remainder[i] ? "no layer" : opOf(i), ...says(i)); }
  function groupTip(event, group) {
    const { name, size } = flopwise.groups[group], [ns, flops] = ["time", "flops"].map((key) => flopwise.groupSums(key)[group].value);
    tip(event, name, noun(size, "layer"), `${time(ns)}, ${share(ns)} of the trace`, flops ? `${human(flops, "FLOP")}, ${human(Math.round((1e9 * flops) / ns), "FLOP/s")}` : "");
  }

  function draw() {
    const i = flopwise.state.chosen;
    box.hidden = i < 0;
    if (i < 0) return;
    const most = data.most[i] || [];
    const kernels = d3.range(0, most.length, 2).map((at) => `${flopwise.cut(data.kernels[most[at]], 70)} (${time(most[at + 1])})`).join(", ");
    const facts = [...data.heads.filter(([key]) => !["name", "op"].includes(key)).map(([key, title, kind]) => [title, flopwise.cellText(column(key, i), kind)]), ["layers", (L.inside[i] || []).join(", ")], ["its time is in", lineOf(i) === i ? "" : L.name[lineOf(i)]], ["most time in", kernels]].filter(([, text]) => text !== "" && !unknown(text));
    box.replaceChildren(
      make("div", { class: "top" },
        make("div", { class: "who" }, L.name[i], make("small", {}, opOf(i))),
        data.timeline ? make("button", { type: "button", id: "to-timeline", onclick: () => flopwise.emit("show-timeline", i) }, "Show in timeline") : null,
        make("button", { type: "button", id: "to-table", onclick: () => flopwise.emit("show-table", i) }, "Show in table"),
        make("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => flopwise.choose(-1) }, "×")),
      make("dl", {}, ...facts.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text)))));
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && flopwise.state.chosen >= 0) flopwise.choose(-1); });
  flopwise.on("choose", draw);

  // A cell as the tables of the command line show it.
  function cellText(value, kind) {
    if (unknown(value)) return "?";
    if (value === "" || kind === "text") return String(value);
    if (kind === "percent") return value > 0 && value < 0.05 ? "<0.1" : value.toFixed(1);
    if (kind === "ratio") return value >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));
    return flopwise.exact(value);
  }
  return { layerTip, groupTip, cellText, lineOf, layerSays: says };
})());
