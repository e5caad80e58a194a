"use strict";
// The graph: modules that open and close, laid out by dagre as far as they are open, so that thousands of layers are no
// burden; what repeats is drawn once. Colour is the kind of work, its strength the share of the measure; shapes stand on
// the edges, and a value that goes to many boxes has a sign at each of them in place of a wire.
(() => {
  const { data, count, groups, make, number, percent, cut, noun, single, shownAs } = flopwise;
  const view = document.getElementById("graph-view");
  const START = 40; // boxes shown at first
  const MOST = 400; // boxes shown at once, an open module as two: the frames cost dagre more time than the boxes
  const WIDE = 188, HIGH = 44, IO = [120, 30];
  const FAN = 5; // a box with results for more boxes than this has no wires
  // Layers that compute nothing from stored values alone are left out, such as an Identity of a bias: for each of them the
  // first layer that takes its result.
  const user = new Map();
  if (data.inputs.length) {
    const fed = new Array(count).fill(false), first = new Array(count).fill(-1);
    const edges = d3.range(0, data.edges.length, 3).map((e) => [data.edges[e], data.edges[e + 1]]);
    edges.sort((a, b) => a[0] - b[0]).forEach(([maker, taker]) => {
      if (taker >= 0 && (maker < 0 || fed[maker] || number(data.layers.flops[maker]))) fed[taker] = true;
      if (maker >= 0 && taker >= 0 && first[maker] < 0) first[maker] = taker;
    });
    d3.range(count).forEach((layer) => { if (!fed[layer] && first[layer] >= 0 && data.layers.flops[layer] === 0) user.set(layer, first[layer]); });
  }
  const constant = (part) => (part.layer !== undefined ? user.has(part.layer) : groups[part.group].size > 0 && flopwise.layersIn(part).every((layer) => user.has(layer)));
  const constants = groups.map((group) => user.size > 0 && constant({ group: group.index }));
  const inner = (group) => (user.size ? flopwise.partsOf(group).filter((part) => (part.layer !== undefined ? !user.has(part.layer) : !constants[part.group])) : flopwise.partsOf(group));

  const open = new Set([0, flopwise.top]);
  let shown = { nodes: new Map(), edges: [] };
  let at = ""; // the box that Tab reaches
  let zoomed = d3.zoomIdentity;

  for (let g = flopwise.top; g > 0; g = groups[g].parent) open.add(g);

  // A module of one layer is shown as that layer.
  let singles = [];
  const key = (part) => (part.layer !== undefined ? `l${part.layer}` : singles[part.group] >= 0 ? `l${singles[part.group]}` : `g${part.group}`);

  // The module that one holds, where it holds nothing else.
  function within(group) {
    for (let at = group; ;) {
      const parts = inner(at);
      if (parts.length !== 1 || parts[0].group === undefined || singles[parts[0].group] >= 0) return at;
      at = parts[0].group;
    }
  }

  const FRAME = 2;
  // How many boxes there are, open modules included.
  function boxes() {
    const visit = (group) => inner(group).reduce((all, part) => all + (part.group !== undefined && singles[part.group] < 0 && open.has(part.group) ? visit(part.group) + FRAME : 1), 0);
    return visit(0);
  }
  // Level by level, as long as all modules of a level fit; those that hold next to nothing stay closed.
  function openWithin(most) {
    const sums = flopwise.groupSums(), whole = flopwise.total();
    for (;;) {
      const level = visibleClosed().filter((group) => !whole || sums[group].value >= whole / 100);
      if (!level.length || boxes() + d3.sum(level, (group) => inner(group).length - 1) > most) return;
      level.forEach((group) => open.add(group));
    }
  }
  function visibleClosed() {
    const closed = [], visit = (group) => inner(group).forEach((part) => {
      if (part.group === undefined || singles[part.group] >= 0) return;
      if (open.has(part.group)) visit(part.group);
      else closed.push(part.group);
    });
    visit(0);
    return closed;
  }

  // The box that stands for each layer, and the open modules around it.
  function place() {
    const standing = new Array(groups.length);
    groups.forEach((group, index) => {
      const above = index === 0 ? null : standing[group.parent];
      const free = open.has(index) || flopwise.bare(group);
      standing[index] = above || (singles[index] >= 0 && index > 0 ? `l${singles[index]}` : free ? null : `g${index}`);
    });
    const boxOf = Array.from({ length: count }, (_, layer) => standing[data.layers.group[shownAs(layer)]] || `l${shownAs(layer)}`);
    [...user].reverse().forEach(([layer, taker]) => { boxOf[layer] = boxOf[taker]; });
    return boxOf;
  }

  function layout() {
    singles = groups.map((group) => single(group.index));
    const boxOf = place();
    const graph = new dagre.graphlib.Graph({ compound: true });
    graph.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 34, edgesep: 14, marginx: 16, marginy: 16, ranker: "network-simplex" });
    graph.setDefaultEdgeLabel(() => ({}));
    const nodes = new Map();
    const visit = (group) => inner(group).forEach((part) => {
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
      const [maker, taker] = [data.edges[e], data.edges[e + 1]];
      if (maker >= 0 && user.has(maker)) continue;
      const from = maker < 0 ? "in" : boxOf[maker];
      const to = taker < 0 ? "out" : boxOf[taker];
      if (from === to || (maker >= 0 && taker >= 0 && flopwise.carried(maker, taker))) continue;
      const id = `${from} ${to}`;
      if (!edges.has(id)) edges.set(id, { from, to, shapes: new Map() });
      const shapes = edges.get(id).shapes; // of what repeats one turn is shown
      const one = maker < 0 ? `in ${data.edges[e + 2]}` : shownAs(maker);
      shapes.set(`${one} ${taker < 0 ? "" : shownAs(taker)} ${data.edges[e + 2]}`, data.edges[e + 2]);
    }
    // Wires of a value for many boxes, such as a table of positions, would cover the others.
    const reach = d3.rollup(edges.values(), (list) => list.length, (edge) => edge.from);
    const signs = new Map();
    for (const [id, edge] of edges) {
      edge.shapes = [...edge.shapes.values()];
      if (reach.get(edge.from) <= FAN || !nodes.has(edge.from) || !nodes.has(edge.to)) continue;
      edges.delete(id);
      if (!signs.has(edge.to)) signs.set(edge.to, []);
      signs.get(edge.to).push(edge.from);
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
    shown = { nodes, clusters, signs, fans: new Map([...reach].filter(([from, many]) => many > FAN && nodes.has(from))), edges: laid, width: Math.max(size.width || 0, 10), height: Math.max(size.height || 0, 10), boxOf };
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
  const shareOf = (node, sums, own, whole) => {
    if (node.layer < 0 && node.group < 0) return 0;
    const value = node.layer >= 0 ? own[node.layer] : sums[node.group].value;
    if (flopwise.unknown(value)) return null;
    return whole ? (100 * flopwise.number(value)) / whole : 0;
  };
  const frame = ({ name, kind }, room) => `− ${cut(name, room)}${kind && name.length + 8 < room ? `  ${cut(kind, room - name.length - 2)}` : ""}`;
  const nameOf = (id) => (id === "in" ? "input" : id[0] === "g" ? groups[Number(id.slice(1))].name : near(Number(id.slice(1))));
  const near = (layer) => {
    const name = data.layers.name[layer].replace(/\/+$/, "");
    return name.split("/").filter(Boolean).slice(-2).join("/") || name;
  };

  function draw() {
    const sums = flopwise.groupSums();
    const whole = flopwise.total(), own = flopwise.folded();
    const nodes = [...shown.nodes.values()];
    nodes.forEach((node) => { node.share = shareOf(node, sums, own, whole); node.kind = node.layer >= 0 ? data.layers.kind[node.layer] : node.group >= 0 ? sums[node.group].kind : -1; });
    const most = d3.max(nodes, (node) => node.share || 0) || 0;
    const heat = (node) => (most ? Math.sqrt((node.share || 0) / most) : 0);
    const present = d3.groupSort(nodes.filter((node) => node.kind >= 0 && node.share), (list) => -d3.sum(list, (node) => node.share), (node) => node.kind);
    document.getElementById("graph-legend").replaceChildren(...present.slice(0, 6).map((kind) => { const dot = make("i", { class: "dot" }); dot.style.background = flopwise.colour(kind); return make("span", {}, dot, data.kinds[kind]); }));
    const chosen = flopwise.state.chosen >= 0 ? shown.boxOf[flopwise.state.chosen] : "";
    if (!shown.nodes.has(at)) at = nodes.length ? nodes[0].id : "";

    canvas.selectChildren().remove();
    const cluster = canvas.append("g").selectAll("g").data(shown.clusters).join("g").attr("class", "cluster").attr("role", "button").attr("tabindex", -1)
      .attr("data-group", (c) => c.group)
      .attr("transform", (c) => `translate(${c.x - c.width / 2},${c.y - c.height / 2})`)
      .on("click", (event, c) => toggle(c.group))
      .on("keydown", (event, c) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); toggle(c.group); } });
    cluster.append("rect").attr("y", -8).attr("width", (c) => c.width).attr("height", (c) => c.height + 8).attr("rx", 10);
    flopwise.said(cluster, (c) => `Module ${groups[c.group].name}, open; Enter closes it`);
    cluster.append("text").attr("aria-hidden", "true").attr("x", 10).attr("y", 7).text((c) => frame(groups[c.group], Math.floor((c.width - 34) / 7.6)));

    const edge = canvas.append("g").selectAll("g").data(shown.edges).join("g");
    edge.append("path").attr("class", (e) => `edge${chosen && (e.from === chosen || e.to === chosen) ? " chosen" : ""}`).attr("d", (e) => line(e.points)).attr("marker-end", "url(#arrow)");
    edge.append("text").attr("class", "edge-label").attr("x", (e) => e.x + 8).attr("y", (e) => e.y + 4).text((e) => cut(e.edge.label, 26));
    // the wires that are left out, where one of their ends is chosen
    const wires = [...shown.signs].flatMap(([to, makers]) => makers.filter((from) => chosen && (from === chosen || to === chosen)).map((from) => [shown.nodes.get(from), shown.nodes.get(to)]));
    canvas.append("g").selectAll("path").data(wires).join("path").attr("class", "edge chosen").attr("marker-end", "url(#arrow)")
      .attr("d", ([a, b]) => { const [y0, y1] = [a.y + a.height / 2, b.y - b.height / 2], mid = (y0 + y1) / 2; return `M${a.x},${y0}C${a.x},${mid} ${b.x - 40},${mid} ${b.x - 40},${y1}`; });

    const node = canvas.append("g").selectAll("g").data(nodes, (n) => n.id).join("g")
      .attr("class", (n) => `node${n.group >= 0 ? " module" : n.layer < 0 ? " io" : n.share === null ? " unknown" : ""}${n.id === chosen ? " chosen" : ""}`)
      .attr("transform", (n) => `translate(${n.x - n.width / 2},${n.y - n.height / 2})`)
      .attr("role", (n) => (n.layer < 0 && n.group < 0 ? "img" : "button")).attr("tabindex", (n) => (n.id === at ? 0 : -1)).attr("data-id", (n) => n.id)
      .on("click", (event, n) => act(n))
      .on("focus", (event, n) => { at = n.id; canvas.selectAll(".node").attr("tabindex", (o) => (o.id === at ? 0 : -1)); })
      .on("keydown", keys)
      .on("mousemove", (event, n) => tip(event, n)).on("mouseleave", flopwise.untip);
    flopwise.said(node.filter((n) => n.layer >= 0 || n.group >= 0), label);
    node.filter((n) => n.layer < 0 && n.group < 0).attr("aria-label", label);
    node.filter((n) => n.group >= 0).append("rect").attr("class", "behind").attr("x", 4).attr("y", 4).attr("width", (n) => n.width).attr("height", (n) => n.height).attr("rx", 7);
    node.append("rect").attr("width", (n) => n.width).attr("height", (n) => n.height).attr("rx", 7)
      .style("fill", (n) => (n.kind < 0 ? null : `color-mix(in srgb, ${flopwise.colour(n.kind)} ${(6 + 28 * heat(n)).toFixed(1)}%, var(--surface))`));
    const boxed = node.filter((n) => n.layer >= 0 || n.group >= 0);
    boxed.append("path").attr("class", "stripe").attr("d", (n) => `M6,1H4a3,3 0 0 0 -3,3V${n.height - 4}a3,3 0 0 0 3,3H6z`).style("fill", (n) => flopwise.colour(n.kind));
    boxed.filter((n) => n.share > 0).append("rect").attr("class", "part").attr("x", 12).attr("y", (n) => n.height - 5).attr("height", 3).attr("rx", 1.5).attr("width", (n) => Math.max(1, ((n.width - 22) * n.share) / 100)).style("fill", (n) => flopwise.colour(n.kind));
    const many = (n) => (n.layer >= 0 && flopwise.times(n.layer) > 1 ? ` ×${flopwise.times(n.layer)}` : "");
    boxed.append("text").attr("aria-hidden", "true").attr("class", "title").attr("x", 12).attr("y", 17).text((n) => (n.group >= 0 ? `+ ${cut(groups[within(n.group)].name, 12)}` : cut(flopwise.opOf(n.layer), 14 - many(n).length) + many(n)));
    boxed.append("text").attr("aria-hidden", "true").attr("class", "share").attr("x", (n) => n.width - 9).attr("y", 17).text((n) => (n.share === null ? "?" : percent(n.share)));
    boxed.append("text").attr("aria-hidden", "true").attr("class", "name").attr("x", 12).attr("y", 33).text((n) => (n.group >= 0 ? cut([groups[within(n.group)].kind, noun(groups[n.group].size, "layer")].filter(Boolean).join(" · "), 25) : cut(near(n.layer), 25)));
    // signs in place of wires
    node.filter((n) => shown.signs.has(n.id)).append("text").attr("aria-hidden", "true").attr("class", "sign").attr("x", 4).attr("y", -4).text((n) => { const makers = shown.signs.get(n.id); return `↳ ${makers.length > 1 ? noun(makers.length, "shared value") : cut(nameOf(makers[0]), 12)}`; });
    node.filter((n) => shown.fans.has(n.id)).append("text").attr("aria-hidden", "true").attr("class", "sign").attr("x", (n) => n.width / 2).attr("y", (n) => n.height + 13).attr("text-anchor", "middle").text((n) => `→ ${noun(shown.fans.get(n.id), "box", "boxes")}`);
    node.filter((n) => n.layer < 0 && n.group < 0).append("text").attr("aria-hidden", "true").attr("class", "title").attr("x", (n) => n.width / 2).attr("y", 19).attr("text-anchor", "middle").text((n) => (n.id === "in" ? "input" : "output"));
    const boxesNow = nodes.filter((n) => n.layer >= 0 || n.group >= 0).length;
    document.getElementById("graph-sub").textContent = `${noun(boxesNow, "box", "boxes")} for ${noun(count, "layer")}${user.size ? `, without ${noun(user.size, "constant")}` : ""}; click a module to open it, a layer to choose it`;
    document.getElementById("graph-open").disabled = !visibleClosed().some((group) => boxes() + inner(group).length - 1 + FRAME <= MOST);
  }

  // What a screen reader says of a box.
  function label(n) {
    if (n.layer >= 0) return `${flopwise.opOf(n.layer)} ${data.layers.name[n.layer]}, ${n.share === null ? "unknown" : percent(n.share)}`;
    if (n.group >= 0) return `Module ${groups[n.group].name} of ${noun(groups[n.group].size, "layer")}, ${percent(n.share)}, closed; Enter opens it`;
    return n.id === "in" ? "Inputs of the model" : "Outputs of the model";
  }
  function tip(event, n) {
    if (n.layer >= 0) return flopwise.layerTip(event, n.layer);
    if (n.group >= 0) return flopwise.groupTip(event, n.group);
    const ports = n.id === "in" ? data.inputs : data.outputs;
    return flopwise.tip(event, n.id === "in" ? "inputs" : "outputs", ...ports.slice(0, 8).map((t) => `${t.name} ${t.dtype} ${t.shape}`), ports.length > 8 ? `and ${ports.length - 8} more` : "");
  }
  function act(n) {
    if (n.group >= 0) toggle(n.group);
    else if (n.layer >= 0) flopwise.choose(n.layer, "graph");
  }
  function closeBelow(group) {
    open.delete(group);
    inner(group).forEach((part) => { if (part.group !== undefined && open.has(part.group)) closeBelow(part.group); });
  }
  function toggle(group) {
    flopwise.untip();
    const focused = view.contains(document.activeElement);
    let deepest = group;
    const before = open.has(group) ? shown.clusters.find((c) => c.group === group) : shown.nodes.get(`g${group}`);
    const held = before ? zoomed.apply([before.x, before.y - before.height / 2]) : null;
    if (open.has(group)) closeBelow(group);
    else {
      if (boxes() + inner(group).length + FRAME > MOST) { closeAll(); }
      for (let g = group; g >= 0; g = groups[g].parent) open.add(g);
      // a module that holds nothing but another one is opened with it
      for (let at = group; at !== within(group);) { at = inner(at)[0].group; open.add(at); }
      deepest = within(group);
    }
    layout();
    draw();
    // what was clicked stays under the pointer
    const after = open.has(group) ? shown.clusters.find((c) => c.group === group) : shown.nodes.get(`g${group}`);
    if (held && after) transform(d3.zoomIdentity.translate(held[0] - after.x * zoomed.k, held[1] - (after.y - after.height / 2) * zoomed.k).scale(zoomed.k));
    const next = open.has(group) ? [...shown.nodes.values()].find((n) => inner(deepest).some((part) => key(part) === n.id)) || after : after;
    if (next && next.id && focused) focus(next.id);
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
    const scale = all ? k : Math.max(k, Math.min(0.8, Math.max(wide / shown.width, 0.5)));
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
    const box = canvas.selectAll(".node").filter((n) => n.id === id).node();
    if (!box) return;
    box.focus({ preventScroll: true });
    const [x, y] = zoomed.apply([shown.nodes.get(id).x, shown.nodes.get(id).y]);
    const [wide, high] = room();
    if (x < 90 || y < 40 || x > wide - 90 || y > high - 40) centre(id, false);
  }
  // The nearest box in the direction of the arrow.
  function keys(event, n) {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(n); return; }
    if (event.key === "Backspace") {
      event.preventDefault();
      const around = shown.clusters.filter((c) => c.group > 0 && Math.abs(n.x - c.x) < c.width / 2 && Math.abs(n.y - c.y) < c.height / 2);
      if (around.length) { const { group } = around[around.length - 1]; toggle(group); focus(`g${group}`); }
      return;
    }
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
    for (let g = data.layers.group[shownAs(layer)]; g >= 0; g = groups[g].parent) if (!flopwise.bare(groups[g])) path.push(g);
    const missing = path.filter((g) => !open.has(g) && singles[g] < 0);
    if (missing.length) {
      if (boxes() + d3.sum(missing, (g) => inner(g).length) > MOST) closeAll();
      path.forEach((g) => open.add(g));
      layout();
    }
    draw();
    centre(`l${shownAs(layer)}`, !missing.length);
  }

  document.getElementById("graph-open").addEventListener("click", () => {
    const before = visibleClosed();
    let now = boxes();
    for (const group of before) {
      if (now + inner(group).length - 1 + FRAME > MOST) continue;
      open.add(group);
      now += inner(group).length - 1 + FRAME;
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
  flopwise.on("fold", () => {
    open.clear();
    for (let g = flopwise.top; g >= 0; g = groups[g].parent) open.add(g);
    singles = groups.map((group) => single(group.index));
    openWithin(START);
    layout();
    draw();
    fit();
  });
  flopwise.on("choose", (layer, from) => { if (layer >= 0 && from !== "graph") reveal(layer); else draw(); });
  flopwise.on("show-graph", (layer) => {
    document.getElementById("graph").scrollIntoView();
    reveal(layer);
    focus(shown.boxOf[layer]);
  });

  // Enter goes to the next layer that has the words above the graph.
  const search = document.getElementById("graph-search"), found = document.getElementById("graph-found");
  search.addEventListener("input", () => { found.textContent = ""; });
  search.addEventListener("keydown", (event) => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (event.key !== "Enter" || !words.length) return;
    const text = (layer) => `${data.layers.name[layer]} ${flopwise.opOf(layer)}`.toLowerCase();
    const layers = d3.range(flopwise.count).filter((layer) => words.every((word) => text(layer).includes(word)));
    const next = layers.find((layer) => layer > flopwise.state.chosen) ?? layers[0];
    found.textContent = layers.length ? `${layers.indexOf(next) + 1} of ${layers.length}` : "no layer";
    if (next !== undefined) flopwise.choose(next, "search");
  });

  singles = groups.map((group) => single(group.index));
  openWithin(START);
  layout();
  draw();
  fit();
})();
