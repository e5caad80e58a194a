"use strict";
// The table of lines: layers, operators, modules or kernels.
(() => {
  const { data, count, make, noun, more, way, state } = flopwise;
  const L = data.layers, VERDICTS = ["slower", "faster", "same", "added", "gone", "no layer"];
  const [grouping, verdict] = ["grouping", "verdict"].map((id) => document.getElementById(id));
  const micro = (ns) => (ns / 1e3).toLocaleString("en-US", { maximumFractionDigits: 1 });
  const signed = (ns) => `${ns > 0 ? "+" : ns < 0 ? "−" : ""}${micro(Math.abs(ns))}`;
  let largest = 1;
  function meter(i) {
    const bar = make("i", { class: more[i] > 0 ? "more" : "less" });
    bar.style.width = `${(50 * Math.abs(more[i])) / largest}%`;
    return make("span", {}, bar);
  }
  // Modules hold each other, so that their lines do not add up.
  const sum = (values, text) => (lines) => (data.groupings[state.by] === "modules" ? "" : text(d3.sum(lines, (i) => values[i])));
  const words = (key, title, value) => ({ key, title: () => title, kind: "text", value, text: value, first: "ascending", words: true });
  const columns = [
    { key: "index", title: () => "#", kind: "num muted", value: (i) => i, text: (i) => String(i - first() + 1), first: "ascending" },
    { ...words("name", "name", (i) => L.name[i]), kind: "text name", room: 44 },
    { ...words("op", "op", (i) => data.ops[L.op[i]]), room: 24, hidden: () => state.by > 0 },
    { ...words("phase", "pass", (i) => L.phase[i]), hidden: () => !L.phase.includes("backward") || state.by > 0 },
    { key: "before", title: () => "before µs", kind: "num", value: (i) => L.before[i], text: (i) => micro(L.before[i]), foot: sum(L.before, micro) },
    { key: "after", title: () => "after µs", kind: "num", value: (i) => L.after[i], text: (i) => micro(L.after[i]), foot: sum(L.after, micro) },
    { key: "more", title: () => "diff µs", kind: "num", value: (i) => more[i], least: -Infinity, text: (i) => signed(more[i]), mood: way, foot: sum(more, signed) },
    { key: "bar", title: () => "difference", about: "Sort by the size of the difference", kind: "num change", value: (i) => Math.abs(more[i]), fill: meter },
    { key: "share", title: () => "%", kind: "num", value: (i) => (L.before[i] ? more[i] / L.before[i] : L.after[i] ? Infinity : 0), least: -Infinity, text: flopwise.share, mood: way },
    { key: "spread", title: () => "± µs", kind: "num", value: (i) => L.spread[i], text: (i) => (L.verdict[i] === "no layer" ? "" : micro(L.spread[i])) },
    words("verdict", "verdict", (i) => L.verdict[i]),
  ];
  const first = () => L.by.indexOf(state.by);
  const inGroup = (i) => L.by[i] === state.by;
  function offer() {
    const before = verdict.value;
    const lines = d3.range(count).filter(inGroup);
    const many = (test) => lines.filter(test).length.toLocaleString("en-US");
    verdict.replaceChildren(make("option", { value: "" }, `all (${many(() => true)})`), ...VERDICTS.filter((name) => lines.some((i) => L.verdict[i] === name)).map((name) => make("option", { value: name }, `${name} (${many((i) => L.verdict[i] === name)})`)));
    verdict.value = VERDICTS.includes(before) && lines.some((i) => L.verdict[i] === before) ? before : "";
    largest = d3.max(lines, (i) => Math.abs(more[i])) || 1;
  }
  const texts = d3.range(count).map((i) => `${L.name[i]}\n${data.ops[L.op[i]]}\n${L.phase[i]}`.toLowerCase());
  const filters = flopwise.filters(texts, () => table.again());
  const table = flopwise.table({
    box: document.getElementById("table"), name: "Lines", columns: () => columns,
    fits: () => { const one = filters.fits(); return (i) => inGroup(i) && one(i) && (!verdict.value || L.verdict[i] === verdict.value); },
    total: (lines) => `Total of ${noun(lines.length, "line")}`,
    empty: () => "Nothing fits the filter.",
    enter: () => {},
    drawn: (lines, printed) => { document.getElementById("layers-sub").textContent = noun(lines.length, "line") + printed; },
  });
  grouping.append(...data.groupings.flatMap((name, by) => (L.by.includes(by) ? [make("option", { value: by }, name)] : [])));
  grouping.addEventListener("change", () => flopwise.group(Number(grouping.value)));
  verdict.addEventListener("change", () => table.again());
  document.getElementById("filter-clear").addEventListener("click", () => { filters.set(""); verdict.value = ""; table.again(); });
  flopwise.on("group", () => { document.getElementById("filter-op").parentElement.hidden = state.by > 0; offer(); filters.set(""); table.again("bar"); });
  offer();
  table.again("bar");
})();
