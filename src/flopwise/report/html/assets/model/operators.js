"use strict";
// What each kind of work and each operator adds up to; the kinds are also the key to the colours.
(() => {
  const { data, make, number, human, percent, measures, noun, colour, cut } = flopwise;
  const MOST = 8;

  function bars(label, list, unit, whole) {
    const largest = d3.max(list, (entry) => entry.value) || 0;
    return make("div", { class: "bars", role: "group", "aria-label": label }, ...list.flatMap((entry) => {
      const track = make("div", { class: "track" });
      [...entry.kinds].sort((a, b) => b[1] - a[1]).forEach(([kind, value]) => {
        if (!value) return;
        const piece = make("i", {});
        piece.style.width = `${(100 * value) / largest}%`;
        piece.style.background = colour(kind);
        track.append(piece);
      });
      const swatch = make("i", { class: "dot" });
      swatch.style.background = entry.kinds.size ? colour(d3.greatest(entry.kinds, (pair) => pair[1])[0]) : "var(--k-10)";
      const figure = entry.unknown === entry.layers ? "?" : `${entry.unknown ? "≥ " : ""}${human(Math.round(entry.value), unit)}`;
      return [
        make(entry.click ? "button" : "span", { class: "op", type: entry.click ? "button" : null, title: entry.click ? `Show the layers: ${entry.name}` : entry.name, onclick: entry.click || (() => {}) }, swatch, cut(entry.name, 21), " ", make("span", { class: "muted" }, `×${entry.layers.toLocaleString("en-US")}`)),
        track,
        make("span", { class: "num" }, figure),
        make("span", { class: "num muted" }, entry.unknown === entry.layers ? "?" : percent(whole ? (100 * entry.value) / whole : 0)),
      ];
    }));
  }

  function draw() {
    const measure = flopwise.state.measure;
    const unit = measures[measure].unit();
    const values = flopwise.values();
    const whole = flopwise.total();
    const entries = (names) => names.map((name, index) => ({ name, index, value: 0, layers: 0, unknown: 0, kinds: new Map() }));
    const [ops, kinds] = [entries(data.ops), entries(data.kinds)];
    data.layers.op.forEach((op, layer) => {
      const kind = data.layers.kind[layer];
      for (const entry of [ops[op], kinds[kind]]) {
        entry.value += number(values[layer]);
        entry.layers++;
        entry.unknown += flopwise.unknown(values[layer]) ? 1 : 0;
        entry.kinds.set(kind, (entry.kinds.get(kind) || 0) + number(values[layer]));
      }
    });
    const sorted = (list) => list.filter((entry) => entry.layers).sort((a, b) => b.value - a.value || b.unknown - a.unknown || b.layers - a.layers);
    const [ordered, worked] = [sorted(ops), sorted(kinds)];
    ordered.forEach((entry) => { entry.click = () => flopwise.emit("filter-op", entry.index); });
    worked.forEach((entry) => { entry.click = () => flopwise.emit("filter-kind", entry.index); });
    const shown = ordered.slice(0, ordered.length > MOST + 1 ? MOST : ordered.length);
    const rest = ordered.slice(shown.length);
    if (rest.length) {
      const together = new Map();
      rest.forEach((entry) => entry.kinds.forEach((value, kind) => together.set(kind, (together.get(kind) || 0) + value)));
      shown.push({ name: noun(rest.length, "other operator"), value: d3.sum(rest, (r) => r.value), layers: d3.sum(rest, (r) => r.layers), unknown: d3.sum(rest, (r) => r.unknown), kinds: together });
    }
    document.getElementById("kind-bars").replaceChildren(bars("Kinds of work", worked, unit, whole));
    document.getElementById("operator-bars").replaceChildren(bars("Operators", shown, unit, whole));
    document.getElementById("operators-sub").textContent = measures[measure].title();
  }

  flopwise.on("counts", draw);
  draw();
})();
