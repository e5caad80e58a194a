"use strict";
// The graph: modules that open and close, laid out by dagre as far as they are open, so that thousands of layers are no
// burden; colour is the share of the measure, shapes stand on the edges.
(() => {
  const { data, count, groups, make, human, percent, cut, noun, measures } = flopwise;
  const view = document.getElementById("graph-view");
  const START = 40; // boxes shown at first
  const MOST = 400; // boxes shown at once, an open module as two: the frames cost dagre more time than the boxes
  const WIDE = 176, HIGH = 44, IO = [120, 30];
  const open = new Set([0, flopwise.top]);
  let shown = { nodes: new Map(), edges: [] };
  let at = ""; // the box that Tab reaches
  let zoomed = d3.zoomIdentity;

  for (let g = flopwise.top; g > 0; g = groups[g].parent) open.add(g);

  // A module of one layer is shown as that layer.
  const single = (group) => {
    let at = groups[group];
    while (at.parts.length === 1) {
      if (at.parts[0].layer !== undefined) return at.parts[0].layer;
      at = groups[at.parts[0].group];
    }
    return -1;
  };
  const singles = groups.map((group) => single(group.index));
  const key = (part) => (part.layer !== undefined ? `l${part.layer}` : singles[part.group] >= 0 ? `l${singles[part.group]}` : `g${part.group}`);

  const FRAME = 2;
  // How many boxes there are, open modules included.
  function boxes() {
    const visit = (group) => groups[group].parts.reduce((all, part) => all + (part.group !== undefined && singles[part.group] < 0 && open.has(part.group) ? visit(part.group) + FRAME : 1), 0);
    return visit(0);
  }
  // Level by level, as long as all modules of a level fit.
  function openWithin(most) {
    for (;;) {
      const level = visibleClosed();
      if (!level.length || boxes() + d3.sum(level, (group) => groups[group].parts.length - 1) > most) return;
      level.forEach((group) => open.add(group));
    }
  }
  function visibleClosed() {
    const found = [], visit = (group) => groups[group].parts.forEach((part) => {
      if (part.group === undefined || singles[part.group] >= 0) return;
      if (open.has(part.group)) visit(part.group);
      else found.push(part.group);
    });
    visit(0);
    return found;
  }

  // The box that stands for each layer, and the open modules around it.
  function place() {
    const standing = new Array(groups.length);
    groups.forEach((group, index) => {
      const above = index === 0 ? null : standing[group.parent];
      standing[index] = above || (singles[index] >= 0 && index > 0 ? `l${singles[index]}` : open.has(index) ? null : `g${index}`);
    });
    return Array.from({ length: count }, (_, layer) => standing[data.layers.group[layer]] || `l${layer}`);
  }

  function layout() {
    const boxOf = place();
    const graph = new dagre.graphlib.Graph({ compound: true });
    graph.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 34, edgesep: 14, marginx: 16, marginy: 16, ranker: "network-simplex" });
    graph.setDefaultEdgeLabel(() => ({}));
    const nodes = new Map();
    const visit = (group) => groups[group].parts.forEach((part) => {
      const id = key(part);
      if (id[0] === "g" && open.has(part.group)) {
        graph.setNode(`c${part.group}`, {});
        if (group !== 0 && group !== flopwise.top) graph.setParent(`c${part.group}`, `c${group}`);
        visit(part.group);
        return;
      }
      nodes.set(id, { id, layer: id[0] === "l" ? Number(id.slice(1)) : -1, group: id[0] === "g" ? part.group : -1 });
      graph.setNode(id, { width: WIDE, height: HIGH });
      if (group !== 0 && group !== flopwise.top && graph.hasNode(`c${group}`)) graph.setParent(id, `c${group}`);
    });
    visit(flopwise.top);
    const edges = new Map();
    for (let e = 0; e < data.edges.length; e += 3) {
      const from = data.edges[e] < 0 ? "in" : boxOf[data.edges[e]];
      const to = data.edges[e + 1] < 0 ? "out" : boxOf[data.edges[e + 1]];
      if (from === to) continue;
      const id = `${from} ${to}`;
      if (!edges.has(id)) edges.set(id, { from, to, shapes: [] });
      edges.get(id).shapes.push(data.edges[e + 2]);
    }
    for (const edge of edges.values()) {
      for (const end of [edge.from, edge.to]) {
        if (!nodes.has(end)) { nodes.set(end, { id: end, layer: -1, group: -1 }); graph.setNode(end, { width: IO[0], height: IO[1] }); }
      }
      edge.label = edge.shapes.length === 1 ? data.shapes[edge.shapes[0]] : new Set(edge.shapes).size === 1 ? `${edge.shapes.length} × ${data.shapes[edge.shapes[0]]}` : noun(edge.shapes.length, "tensor");
      graph.setEdge(edge.from, edge.to, { width: Math.min(edge.label.length * 6, 150), height: 14, labelpos: "r", labeloffset: 5, edge });
    }
    dagre.layout(graph);
    for (const node of nodes.values()) Object.assign(node, graph.node(node.id));
    const clusters = graph.nodes().filter((id) => id[0] === "c" && graph.children(id).length).map((id) => ({ ...graph.node(id), group: Number(id.slice(1)) }));
    clusters.sort((a, b) => groups[a.group].depth - groups[b.group].depth);
    const laid = graph.edges().map((e) => ({ ...graph.edge(e), from: e.v, to: e.w }));
    const size = graph.graph();
    shown = { nodes, clusters, edges: laid, width: Math.max(size.width || 0, 10), height: Math.max(size.height || 0, 10), boxOf };
  }

  const svg = d3.create("svg").attr("role", "group").attr("aria-label", "Graph of the model; arrow keys move from box to box");
  svg.append("defs").append("marker").attr("id", "arrow").attr("viewBox", "0 0 8 8").attr("refX", 7).attr("refY", 4).attr("markerWidth", 7).attr("markerHeight", 7).attr("orient", "auto").append("path").attr("d", "M0,0L8,4L0,8z");
  const canvas = svg.append("g");
  view.append(svg.node());
  const zoom = d3.zoom().scaleExtent([0.04, 3])
    .filter((event) => (event.type === "wheel" ? event.ctrlKey || event.metaKey : event.type.startsWith("touch") ? event.touches.length > 1 : !event.button && event.type !== "dblclick"))
    .on("zoom", (event) => { zoomed = event.transform; canvas.attr("transform", zoomed); canvas.classed("far", zoomed.k < 0.55); });
  svg.call(zoom).on("dblclick.zoom", null);
  view.addEventListener("wheel", (event) => { if (event.ctrlKey || event.metaKey) event.preventDefault(); }, { passive: false });

  const line = d3.line((p) => p.x, (p) => p.y).curve(d3.curveBasis);
  const shareOf = (node, sums, whole) => {
    if (node.layer >= 0) return flopwise.share(node.layer);
    if (node.group < 0) return 0;
    return whole ? (100 * sums[node.group].value) / whole : 0;
  };
  const near = (layer) => {
    const name = data.layers.name[layer].replace(/\/+$/, "");
    return name.split("/").filter(Boolean).slice(-2).join("/") || name;
  };

  function draw() {
    const measure = flopwise.state.measure;
    const sums = flopwise.groupSums();
    const whole = flopwise.total();
    const nodes = [...shown.nodes.values()];
    nodes.forEach((node) => { node.share = shareOf(node, sums, whole); });
    const most = d3.max(nodes, (node) => node.share || 0) || 0;
    const heat = (node) => (most ? Math.sqrt((node.share || 0) / most) : 0);
    const legend = document.getElementById("graph-legend");
    legend.replaceChildren(`${measures[measure].title()}  0 %`, make("i", {}), percent(most));
    const chosen = flopwise.state.chosen >= 0 ? shown.boxOf[flopwise.state.chosen] : "";
    if (!shown.nodes.has(at)) at = nodes.length ? nodes[0].id : "";

    canvas.selectChildren().remove();
    const cluster = canvas.append("g").selectAll("g").data(shown.clusters).join("g").attr("class", "cluster").attr("role", "button").attr("tabindex", -1)
      .attr("aria-label", (c) => `Module ${groups[c.group].name}, open; Enter closes it`)
      .attr("transform", (c) => `translate(${c.x - c.width / 2},${c.y - c.height / 2})`)
      .on("click", (event, c) => toggle(c.group))
      .on("keydown", (event, c) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); toggle(c.group); } });
    cluster.append("rect").attr("y", -8).attr("width", (c) => c.width).attr("height", (c) => c.height + 8).attr("rx", 10);
    cluster.append("text").attr("x", 10).attr("y", 7).text((c) => `− ${cut(groups[c.group].name, Math.floor((c.width - 30) / 7))}${groups[c.group].kind && c.width > 200 ? `  ${cut(groups[c.group].kind, 24)}` : ""}`);

    const edge = canvas.append("g").selectAll("g").data(shown.edges).join("g");
    edge.append("path").attr("class", (e) => `edge${chosen && (e.from === chosen || e.to === chosen) ? " chosen" : ""}`).attr("d", (e) => line(e.points)).attr("marker-end", "url(#arrow)");
    edge.append("text").attr("class", "edge-label").attr("x", (e) => e.x + 8).attr("y", (e) => e.y + 4).text((e) => cut(e.edge.label, 26));

    const node = canvas.append("g").selectAll("g").data(nodes, (n) => n.id).join("g")
      .attr("class", (n) => `node${n.group >= 0 ? " module" : n.layer < 0 ? " io" : n.share === null ? " unknown" : ""}${n.id === chosen ? " chosen" : ""}`)
      .attr("transform", (n) => `translate(${n.x - n.width / 2},${n.y - n.height / 2})`)
      .attr("role", (n) => (n.layer < 0 && n.group < 0 ? "img" : "button")).attr("tabindex", (n) => (n.id === at ? 0 : -1)).attr("data-id", (n) => n.id)
      .attr("aria-label", (n) => label(n))
      .on("click", (event, n) => act(n))
      .on("focus", (event, n) => { at = n.id; canvas.selectAll(".node").attr("tabindex", (o) => (o.id === at ? 0 : -1)); })
      .on("keydown", keys)
      .on("mousemove", (event, n) => tip(event, n)).on("mouseleave", flopwise.untip);
    node.filter((n) => n.group >= 0).append("rect").attr("class", "behind").attr("x", 4).attr("y", 4).attr("width", (n) => n.width).attr("height", (n) => n.height).attr("rx", 7);
    node.append("rect").attr("width", (n) => n.width).attr("height", (n) => n.height).attr("rx", 7)
      .style("fill", (n) => (n.layer < 0 && n.group < 0 ? null : `color-mix(in srgb, var(--heat-1) ${(100 * heat(n)).toFixed(1)}%, var(--heat-0))`));
    const ink = (n) => (heat(n) > 0.55 && (n.layer >= 0 || n.group >= 0) ? "var(--on-heat)" : null);
    const boxed = node.filter((n) => n.layer >= 0 || n.group >= 0);
    boxed.append("text").attr("class", "title").attr("x", 10).attr("y", 18).style("fill", ink).text((n) => (n.group >= 0 ? `+ ${cut(groups[n.group].name, 12)}` : cut(flopwise.opOf(n.layer), 15)));
    boxed.append("text").attr("class", "share").attr("x", (n) => n.width - 9).attr("y", 18).style("fill", ink).text((n) => (n.share === null ? "?" : percent(n.share)));
    boxed.append("text").attr("class", "name").attr("x", 10).attr("y", 34).style("fill", ink).text((n) => (n.group >= 0 ? cut([groups[n.group].kind, noun(groups[n.group].size, "layer")].filter(Boolean).join(" · "), 26) : cut(near(n.layer), 26)));
    node.filter((n) => n.layer < 0 && n.group < 0).append("text").attr("class", "title").attr("x", (n) => n.width / 2).attr("y", 19).attr("text-anchor", "middle").text((n) => (n.id === "in" ? "input" : "output"));
    const boxesNow = nodes.filter((n) => n.layer >= 0 || n.group >= 0).length;
    document.getElementById("graph-sub").textContent = `${noun(boxesNow, "box", "boxes")} for ${noun(count, "layer")}; click a module to open it, a layer to choose it`;
    document.getElementById("graph-open").disabled = !visibleClosed().some((group) => boxes() + groups[group].parts.length - 1 + FRAME <= MOST);
  }

  function label(n) {
    if (n.layer >= 0) return `${flopwise.opOf(n.layer)} ${data.layers.name[n.layer]}, ${n.share === null ? "unknown" : percent(n.share)}`;
    if (n.group >= 0) return `Module ${groups[n.group].name} of ${noun(groups[n.group].size, "layer")}, ${percent(n.share)}, closed; Enter opens it`;
    return n.id === "in" ? "Inputs of the model" : "Outputs of the model";
  }
  function tip(event, n) {
    if (n.layer >= 0) return flopwise.layerTip(event, n.layer);
    if (n.group >= 0) return flopwise.tip(event, groups[n.group].name, groups[n.group].kind, noun(groups[n.group].size, "layer"), `${measures[flopwise.state.measure].title()}: ${human(Math.round(flopwise.groupSums()[n.group].value), measures[flopwise.state.measure].unit())}, ${percent(n.share)}`);
    const told = n.id === "in" ? data.inputs : data.outputs;
    return flopwise.tip(event, n.id === "in" ? "inputs" : "outputs", ...told.slice(0, 8).map((t) => `${t.name} ${t.dtype} ${t.shape}`), told.length > 8 ? `and ${told.length - 8} more` : "");
  }
  function act(n) {
    if (n.group >= 0) toggle(n.group);
    else if (n.layer >= 0) flopwise.choose(n.layer, "graph");
  }
  function closeBelow(group) {
    open.delete(group);
    groups[group].parts.forEach((part) => { if (part.group !== undefined && open.has(part.group)) closeBelow(part.group); });
  }
  function toggle(group) {
    flopwise.untip();
    const before = open.has(group) ? shown.clusters.find((c) => c.group === group) : shown.nodes.get(`g${group}`);
    const held = before ? zoomed.apply([before.x, before.y - before.height / 2]) : null;
    if (open.has(group)) closeBelow(group);
    else {
      if (boxes() + groups[group].parts.length + FRAME > MOST) { closeAll(); }
      for (let g = group; g >= 0; g = groups[g].parent) open.add(g);
    }
    layout();
    draw();
    // what was clicked stays under the pointer
    const after = open.has(group) ? shown.clusters.find((c) => c.group === group) : shown.nodes.get(`g${group}`);
    if (held && after) transform(d3.zoomIdentity.translate(held[0] - after.x * zoomed.k, held[1] - (after.y - after.height / 2) * zoomed.k).scale(zoomed.k));
    const next = open.has(group) ? [...shown.nodes.values()].find((n) => n.layer >= 0 && data.layers.group[n.layer] === group) || after : after;
    if (next && next.id && view.contains(document.activeElement) | view.matches(":focus-within")) focus(next.id);
  }
  function closeAll() {
    open.clear();
    for (let g = flopwise.top; g >= 0; g = groups[g].parent) open.add(g);
  }

  const transform = (to, slow = false) => (slow && !matchMedia("(prefers-reduced-motion: reduce)").matches ? svg.transition().duration(250) : svg).call(zoom.transform, to);
  const room = () => [view.clientWidth || 900, view.clientHeight || 600];
  // All of it where it can be read; else the beginning.
  function fit(all = false) {
    const [wide, high] = room();
    const k = Math.min(1.1, wide / shown.width, high / shown.height);
    const scale = all ? k : Math.max(k, Math.min(0.8, wide / shown.width, 1));
    const input = shown.nodes.get("in") || [...shown.nodes.values()][0];
    const left = shown.width * scale <= wide ? (wide - shown.width * scale) / 2 : Math.min(0, wide / 2 - (input ? input.x : shown.width / 2) * scale);
    transform(d3.zoomIdentity.translate(left, shown.height * scale <= high ? (high - shown.height * scale) / 2 : 0).scale(scale));
  }
  function centre(id, slow = true) {
    const node = shown.nodes.get(id);
    if (!node) return;
    const [wide, high] = room();
    const k = Math.max(zoomed.k, 0.7);
    transform(d3.zoomIdentity.translate(wide / 2 - node.x * k, high / 2 - node.y * k).scale(k), slow);
  }
  function focus(id) {
    at = id;
    const found = canvas.selectAll(".node").filter((n) => n.id === id).node();
    if (!found) return;
    found.focus({ preventScroll: true });
    const [x, y] = zoomed.apply([shown.nodes.get(id).x, shown.nodes.get(id).y]);
    const [wide, high] = room();
    if (x < 90 || y < 40 || x > wide - 90 || y > high - 40) centre(id, false);
  }
  // The nearest box in the direction of the arrow.
  function keys(event, n) {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(n); return; }
    const way = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (!way) return;
    event.preventDefault();
    let best = null, least = Infinity;
    for (const other of shown.nodes.values()) {
      const [dx, dy] = [other.x - n.x, other.y - n.y];
      const along = dx * way[0] + dy * way[1], aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
      if (other !== n && along > 4 && along + 2 * aside < least) { least = along + 2 * aside; best = other; }
    }
    if (best) focus(best.id);
  }
  view.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") svg.call(zoom.scaleBy, 1.3);
    else if (event.key === "-") svg.call(zoom.scaleBy, 1 / 1.3);
    else if (event.key === "0") fit(true);
    else return;
    event.preventDefault();
  });

  function reveal(layer) {
    const path = [];
    for (let g = data.layers.group[layer]; g >= 0; g = groups[g].parent) path.push(g);
    const missing = path.filter((g) => !open.has(g) && singles[g] < 0);
    if (missing.length) {
      if (boxes() + d3.sum(missing, (g) => groups[g].parts.length) > MOST) closeAll();
      path.forEach((g) => open.add(g));
      layout();
    }
    draw();
    centre(`l${layer}`, !missing.length);
  }

  document.getElementById("graph-open").addEventListener("click", () => {
    const before = visibleClosed();
    let now = boxes();
    for (const group of before) {
      if (now + groups[group].parts.length - 1 + FRAME > MOST) continue;
      open.add(group);
      now += groups[group].parts.length - 1 + FRAME;
    }
    layout();
    draw();
    fit();
  });
  document.getElementById("graph-close").addEventListener("click", () => { closeAll(); layout(); draw(); fit(); });
  document.getElementById("graph-in").addEventListener("click", () => svg.call(zoom.scaleBy, 1.3));
  document.getElementById("graph-out").addEventListener("click", () => svg.call(zoom.scaleBy, 1 / 1.3));
  document.getElementById("graph-fit").addEventListener("click", () => fit(true));
  addEventListener("beforeprint", () => {
    svg.attr("viewBox", `0 0 ${shown.width} ${shown.height}`).attr("preserveAspectRatio", "xMidYMin meet");
    canvas.attr("transform", null).classed("far", false);
  });
  addEventListener("afterprint", () => { svg.attr("viewBox", null); transform(zoomed); });

  flopwise.on("counts", draw);
  flopwise.on("choose", (layer, from) => { if (layer >= 0 && from !== "graph") reveal(layer); else draw(); });
  flopwise.on("show-graph", (layer) => {
    document.getElementById("graph").scrollIntoView();
    reveal(layer);
    focus(shown.boxOf[layer]);
  });

  openWithin(START);
  layout();
  draw();
  fit();
})();
