"use strict";
// Modules and layers as areas, a few levels at a time; a click on a module goes into it.
flopwise.treemap = (box, root, go) => {
  const { data, groups, partsOf, number, percent, cut, measures } = flopwise;
  const ENOUGH = 16, DEEPEST = 5; // levels are opened until there are so many areas
  const LETTER = 7.4;

  function item(part, depth, sums, values) {
    if (part.layer !== undefined) return { layer: part.layer, name: flopwise.brief(part.layer), value: number(values[part.layer]), kind: data.layers.kind[part.layer] };
    let group = part.group, name = groups[group].name, parts = partsOf(group);
    while (parts.length === 1 && parts[0].group !== undefined) { // a module of one module is one box
      group = parts[0].group;
      name += `.${groups[group].name}`;
      parts = partsOf(group);
    }
    if (parts.length === 1) return { ...item(parts[0], depth, sums, values), name };
    const made = { group, name, value: sums[group].value, kind: sums[group].kind };
    if (depth > 0) made.children = parts.map((inner) => item(inner, depth - 1, sums, values)).filter((inner) => inner.value > 0);
    return made;
  }
  // A name where there is room for enough of it.
  const fitted = (name, wide, least = 6) => { const room = Math.floor(wide / LETTER); return room >= Math.min(least, name.length) ? cut(name, room) : ""; };

  return function draw(width, height) {
    const measure = flopwise.state.measure;
    const sums = flopwise.groupSums(), values = flopwise.folded(), whole = flopwise.total();
    const grown = (depth) => ({ name: groups[root()].name, group: root(), children: partsOf(root()).map((part) => item(part, depth, sums, values)).filter((part) => part.value > 0) });
    const seen = (sums[root()].value || 1) / 200; // what is smaller is hardly seen
    const areas = (part) => (part.children ? d3.sum(part.children, areas) : part.value >= seen ? 1 : 0);
    let tree = grown(1);
    for (let depth = 2; depth <= DEEPEST && areas(tree) < ENOUGH; depth++) tree = grown(depth);
    const svg = flopwise.svg(box, width, height, `Treemap of ${measures[measure].title()} by module; the table of layers has the same figures.`);
    if (!tree.children.length) {
      svg.append("text").attr("x", width / 2).attr("y", height / 2).attr("text-anchor", "middle").attr("class", "label").text(`Nothing here has ${measures[measure].title()}.`);
      return;
    }
    const laid = d3.hierarchy(tree, (node) => node.children).sum((node) => (node.children ? 0 : node.value)).sort((a, b) => b.value - a.value);
    const inside = (pixels) => (node) => (node.depth && node.children ? pixels : 0);
    d3.treemap().size([width, height]).round(true).paddingInner(2).paddingTop(inside(19)).paddingLeft(inside(3)).paddingRight(inside(3)).paddingBottom(inside(3)).tile(d3.treemapSquarify.ratio(1.3))(laid);
    const shown = laid.descendants().filter((node) => node.depth > 0 && node.x1 - node.x0 >= 1 && node.y1 - node.y0 >= 1);
    const cells = svg.selectAll("g").data(shown).join("g")
      .attr("class", (node) => (node.children ? "cell module" : `cell leaf${node.data.layer !== undefined && node.data.layer === flopwise.shownAs(flopwise.state.chosen) ? " chosen" : ""}`))
      .attr("transform", (node) => `translate(${node.x0},${node.y0})`)
      .on("click", (event, node) => (node.data.layer !== undefined ? flopwise.choose(node.data.layer, "treemap") : go(node.data.group)))
      .on("mousemove", (event, node) => (node.data.layer !== undefined ? flopwise.layerTip(event, node.data.layer) : flopwise.groupTip(event, node.data.group)))
      .on("mouseleave", flopwise.untip);
    cells.append("rect").attr("width", (node) => node.x1 - node.x0).attr("height", (node) => node.y1 - node.y0).attr("rx", 3)
      .style("fill", (node) => (node.children ? null : flopwise.colour(node.data.kind)));
    const leaves = cells.filter((node) => !node.children && node.x1 - node.x0 > 34 && node.y1 - node.y0 > 17).style("--ink", (node) => flopwise.ink(node.data.kind));
    leaves.append("text").attr("x", 6).attr("y", 15).text((node) => fitted(node.data.name, node.x1 - node.x0 - 10));
    leaves.filter((node) => node.y1 - node.y0 > 34).append("text").attr("class", "value").attr("x", 6).attr("y", 29).text((node) => percent((100 * node.value) / whole));
    const modules = cells.filter((node) => node.children && node.x1 - node.x0 > 40);
    modules.append("text").attr("x", 5).attr("y", 13).text((node) => {
      const part = percent((100 * node.value) / whole), wide = node.x1 - node.x0 - 10;
      return wide > 150 ? `${fitted(node.data.name, wide - 8 * part.length)}  ${part}` : fitted(node.data.name, wide);
    });
  };
};
