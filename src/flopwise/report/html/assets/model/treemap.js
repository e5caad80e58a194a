"use strict";
// Modules and layers as areas, a few levels at a time; a click on a module goes into it.
(() => {
  const { data, groups, make, number, human, percent, cut, measures, noun } = flopwise;
  const box = document.getElementById("treemap");
  const crumbs = document.getElementById("crumbs");
  const HEIGHT = 380;
  const ENOUGH = 16, DEEPEST = 5; // levels are opened until there are so many areas
  let root = flopwise.top;

  function item(part, depth, sums, values) {
    if (part.layer !== undefined) return { layer: part.layer, name: data.layers.name[part.layer], value: number(values[part.layer]), op: data.layers.op[part.layer] };
    let group = groups[part.group];
    let name = group.name;
    while (group.parts.length === 1 && group.parts[0].group !== undefined) { // a module of one module is one box
      group = groups[group.parts[0].group];
      name += `.${group.name}`;
    }
    if (group.parts.length === 1) return { ...item(group.parts[0], depth, sums, values), name };
    const found = { group: group.index, name, value: sums[group.index].value, op: sums[group.index].op };
    if (depth > 0) found.children = group.parts.map((inner) => item(inner, depth - 1, sums, values)).filter((inner) => inner.value > 0);
    return found;
  }
  const short = (name) => name.replace(/\/+$/, "").split("/").pop() || name;

  function path() {
    const found = [];
    for (let at = root; at >= 0; at = groups[at].parent) found.unshift(groups[at]);
    return found;
  }
  function drawCrumbs() {
    crumbs.replaceChildren(...path().flatMap((group, index, all) => {
      const here = index === all.length - 1;
      const button = make("button", { type: "button", "aria-current": here ? "true" : null, onclick: () => go(group.index) }, group.name);
      return index ? [make("span", { "aria-hidden": "true" }, "›"), button] : [button];
    }));
  }
  function go(group) { root = group; redraw(); }

  function draw(width) {
    drawCrumbs();
    const measure = flopwise.state.measure;
    const sums = flopwise.groupSums();
    const values = flopwise.values();
    const unit = measures[measure].unit();
    const whole = flopwise.total();
    document.getElementById("where-sub").textContent = `area: ${measures[measure].title()}`;
    const grown = (depth) => ({ name: groups[root].name, group: root, children: groups[root].parts.map((part) => item(part, depth, sums, values)).filter((part) => part.value > 0) });
    const areas = (part) => (part.children ? d3.sum(part.children, areas) : 1);
    let tree = grown(1);
    for (let depth = 2; depth <= DEEPEST && areas(tree) < ENOUGH; depth++) tree = grown(depth);
    const svg = flopwise.svg(box, width, HEIGHT, `Treemap of ${measures[measure].title()} by module; the table of layers has the same figures.`);
    if (!tree.children.length) {
      svg.append("text").attr("x", width / 2).attr("y", HEIGHT / 2).attr("text-anchor", "middle").attr("class", "label").text(`Nothing here has ${measures[measure].title()}.`);
      return;
    }
    const laid = d3.hierarchy(tree, (node) => node.children).sum((node) => (node.children ? 0 : node.value)).sort((a, b) => b.value - a.value);
    d3.treemap().size([width, HEIGHT]).round(true).paddingInner(2).paddingTop((node) => (node.depth && node.children ? 19 : 0)).paddingLeft((node) => (node.depth && node.children ? 3 : 0)).paddingRight((node) => (node.depth && node.children ? 3 : 0)).paddingBottom((node) => (node.depth && node.children ? 3 : 0)).tile(d3.treemapSquarify.ratio(1.3))(laid);
    const shown = laid.descendants().filter((node) => node.depth > 0 && node.x1 - node.x0 >= 1 && node.y1 - node.y0 >= 1);
    const cells = svg.selectAll("g").data(shown).join("g")
      .attr("class", (node) => (node.children ? "cell module" : `cell leaf${node.data.layer !== undefined && node.data.layer === flopwise.state.chosen ? " chosen" : ""}`))
      .attr("transform", (node) => `translate(${node.x0},${node.y0})`)
      .on("click", (event, node) => (node.data.layer !== undefined ? flopwise.choose(node.data.layer, "treemap") : go(node.data.group)))
      .on("mousemove", (event, node) => (node.data.layer !== undefined ? flopwise.layerTip(event, node.data.layer)
        : flopwise.tip(event, node.data.name, groups[node.data.group].kind, `${human(node.data.value, unit)}, ${percent(100 * node.data.value / whole)}`, noun(groups[node.data.group].size, "layer"))))
      .on("mouseleave", flopwise.untip);
    cells.append("rect").attr("width", (node) => node.x1 - node.x0).attr("height", (node) => node.y1 - node.y0).attr("rx", 3)
      .style("fill", (node) => (node.children ? null : node.data.op >= 0 ? flopwise.colours[node.data.op] : "var(--op-rest)"));
    const room = (node) => Math.floor((node.x1 - node.x0 - 10) / (node.children ? 7.8 : 7));
    const label = (node) => {
      const share = percent(100 * node.data.value / whole);
      if (!node.children) return cut(short(node.data.name), room(node));
      return room(node) > short(node.data.name).length + share.length + 2 ? `${short(node.data.name)}  ${share}` : cut(short(node.data.name), room(node));
    };
    cells.filter((node) => room(node) >= 3 && node.y1 - node.y0 >= 17).append("text").attr("x", 5).attr("y", 14).text(label);
    cells.filter((node) => !node.children && room(node) >= 5 && node.y1 - node.y0 >= 34).append("text").attr("class", "value").attr("x", 5).attr("y", 29)
      .text((node) => cut(percent(100 * node.data.value / whole), room(node)));
  }

  const redraw = flopwise.sized(box, draw);
  flopwise.on("counts", redraw);
  flopwise.on("choose", redraw);
})();
