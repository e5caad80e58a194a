"use strict";
// Modules as an icicle: each row is a level, width is the measure, the order is that of execution; one click or Enter
// goes into a module. Arrows move through it.
flopwise.flame = (box, root, go, which = () => flopwise.state.measure) => {
  const { data, groups, partsOf, number, percent, cut, measures, human } = flopwise;
  const LEAST = 0.6, LETTER = 7.4, LOW = 24, TALL = 58;
  let at = ""; // the cell that Tab reaches

  function cells() {
    const sums = flopwise.groupSums(which()), values = flopwise.folded(which()), whole = sums[root()].value || 0;
    const list = [];
    function visit(part, from, level, parent) {
      const alone = part.group !== undefined && part.group !== root() ? flopwise.single(part.group) : -1;
      const layer = alone >= 0 ? alone : part.layer;
      const value = layer !== undefined ? number(values[layer]) : sums[part.group].value;
      if (!value || !whole) return 0;
      const cell = {
        id: layer !== undefined ? `l${layer}` : `g${part.group}`, layer, group: part.group, level, from: from / whole, size: value / whole, value, parent,
        name: alone >= 0 ? groups[part.group].name : layer !== undefined ? flopwise.brief(layer) : groups[part.group].name,
        kind: layer !== undefined ? data.layers.kind[layer] : sums[part.group].kind,
      };
      list.push(cell);
      if (layer === undefined) {
        let start = from;
        partsOf(part.group).forEach((inner) => { start += visit(inner, start, level + 1, cell); });
      }
      return value;
    }
    visit({ group: root() }, 0, 0, null);
    return list;
  }

  return function draw(width, height) {
    const measure = which(), whole = flopwise.total(measure);
    const all = cells();
    const shown = all.filter((cell) => cell.size * width >= LEAST);
    const levels = (d3.max(shown, (cell) => cell.level) ?? 0) + 1;
    const high = Math.max(LOW, Math.min(TALL, Math.floor(height / levels)));
    const svg = flopwise.svg(box, width, levels * high + 2, "").attr("role", "group").attr("aria-label", `Modules by ${measures[measure].title()}, a level in each row; arrow keys move, Enter goes into a module, Backspace out of it`);
    if (!shown.length) {
      svg.append("text").attr("x", width / 2).attr("y", 60).attr("text-anchor", "middle").attr("class", "label").text(flopwise.groupSums(which())[root()].unknown ? `${measures[measure].title()} are not known here.` : `Nothing here has ${measures[measure].title()}.`);
      return;
    }
    if (!shown.some((cell) => cell.id === at)) at = shown[0].id;
    const held = svg.node().contains(document.activeElement);
    const chosen = flopwise.shownAs(flopwise.state.chosen);
    const act = (cell) => { if (cell.layer !== undefined) flopwise.choose(cell.layer, "flame"); else if (cell.group !== root()) { at = cell.id; go(cell.group, true); } };
    const cell = svg.selectAll("g").data(shown).join("g")
      .attr("class", (c) => `flame-cell${c.layer !== undefined ? " leaf" : ""}${c.layer !== undefined && c.layer === chosen ? " chosen" : ""}`).attr("data-id", (c) => c.id)
      .attr("transform", (c) => `translate(${c.from * width},${c.level * high + 1})`)
      .attr("role", "button").attr("tabindex", (c) => (c.id === at ? 0 : -1))
      .on("click", (event, c) => act(c))
      .on("focus", (event, c) => { at = c.id; svg.selectAll("g").attr("tabindex", (o) => (o.id === at ? 0 : -1)); })
      .on("keydown", keys)
      .on("mousemove", (event, c) => (c.layer !== undefined ? flopwise.layerTip(event, c.layer) : flopwise.groupTip(event, c.group)))
      .on("mouseleave", flopwise.untip);
    flopwise.said(cell, (c) => `${c.name}, ${human(Math.round(c.value), measures[measure].unit())}, ${percent(whole ? (100 * c.value) / whole : 0)}${c.layer === undefined ? `, module${c.group === root() ? "" : "; Enter goes into it"}` : ""}`);
    cell.append("rect").attr("width", (c) => Math.max(c.size * width - (c.size * width > 4 ? 1 : 0), 0.5)).attr("height", high - 2).attr("rx", (c) => (c.size * width > 8 ? 2 : 0))
      .style("fill", (c) => (c.layer !== undefined ? flopwise.colour(c.kind) : `color-mix(in srgb, ${flopwise.colour(c.kind)} 30%, var(--surface))`));
    cell.filter((c) => c.size * width > 30).style("--ink", (c) => (c.layer !== undefined ? flopwise.ink(c.kind) : "var(--text)")).append("text").attr("aria-hidden", "true").attr("x", 5).attr("y", high / 2 + 3)
      .text((c) => {
        const room = Math.floor((c.size * width - 8) / LETTER), part = percent(whole ? (100 * c.value) / whole : 0);
        if (room < Math.min(4, c.name.length)) return "";
        return room > c.name.length + part.length + 2 ? `${c.name}  ${part}` : cut(c.name, room);
      });

    function keys(event, c) {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(c); return; }
      if (event.key === "Backspace") { event.preventDefault(); const path = flopwise.pathTo(root()); if (path.length > 1) go(path[path.length - 2].index, true); return; }
      const level = { ArrowUp: c.level - 1, ArrowDown: c.level + 1, ArrowLeft: c.level, ArrowRight: c.level }[event.key];
      if (level === undefined) return;
      event.preventDefault();
      const row = shown.filter((o) => o.level === level);
      const place = row.indexOf(c), middle = c.from + c.size / 2;
      const next = event.key === "ArrowUp" ? c.parent : event.key === "ArrowDown" ? row.find((o) => o.parent === c) || d3.least(row, (o) => Math.abs(o.from + o.size / 2 - middle)) : row[place + (event.key === "ArrowRight" ? 1 : -1)];
      if (next) focus(next.id);
    }
    function focus(id) { svg.selectAll("g").filter((c) => c.id === id).node()?.focus({ preventScroll: true }); }
    draw.focus = () => focus(at);
    if (held) focus(at);
  };
};
