"use strict";
// The table of layers: sorted, filtered, and drawn only where it is looked at when there are many.
(() => {
  const { data, count, make, number, unknown, exact, percent, sum, colourOf, opOf, shapesOf, noun, cut } = flopwise;
  const box = document.getElementById("table");
  const filter = document.getElementById("filter");
  const filterOp = document.getElementById("filter-op");
  const ALL = 400; // with more layers only the rows in view are in the page
  const PRINTED = 500;
  const L = data.layers;
  // Names that are paths hold their module and need no column beside them.
  const modules = Object.keys(L.scope).some((i) => !L.name[i].includes("/"));
  const timed = Object.keys(L.times).length > 0;

  // A column: title, the class of its cells, what is sorted by, and what a cell shows.
  const figure = (key, title) => ({ key, title: () => title, kind: "num", value: (i) => L[key][i], text: (i) => exact(L[key][i]), sums: () => L[key] });
  const counts = () => flopwise.convention().counts;
  const COLUMNS = [
    { key: "index", title: () => "#", kind: "num muted", value: (i) => i, text: (i) => String(i + 1), first: "ascending" },
    { key: "name", title: () => "layer", kind: "text name", value: (i) => L.name[i], text: (i) => L.name[i], room: modules ? 28 : 40, first: "ascending" },
    { key: "op", title: () => "op", kind: "text", value: opOf, text: opOf, first: "ascending", dot: true },
    modules && { key: "scope", title: () => "module", kind: "text muted scope", value: (i) => L.scope[i] || "", text: (i) => L.scope[i] || "", room: 26, first: "ascending" },
    { key: "outputs", title: () => "output", kind: "text", value: (i) => number(L.activations[i]), text: (i) => shapesOf(L.outputs[i]), none: (i) => unknown(L.activations[i]) },
    timed && { key: "times", title: () => "runs", kind: "num", value: (i) => (i in L.times ? L.times[i] : 1), text: (i) => (i in L.times ? exact(L.times[i]) : "1") },
    figure("params", "params"),
    { ...figure("macs", "MACs"), hidden: () => flopwise.convention().name === "macs" },
    { key: "count", title: () => `${flopwise.convention().unit} (${flopwise.convention().name})`, kind: "num", value: (i) => counts()[i], text: (i) => exact(counts()[i]), sums: counts },
    { key: "share", title: () => "% of all", kind: "num meter", value: (i) => counts()[i], text: (i) => percent(flopwise.share(i, "count")), bar: true },
    figure("weight_bytes", "weight bytes"),
    figure("output_bytes", "output bytes"),
  ].filter(Boolean);
  const shownColumns = () => COLUMNS.filter((column) => !(column.hidden && column.hidden()));
  const sorting = { key: "index", descending: false };
  let order = d3.range(count);
  let drawn = [-1, -1];
  let rowHeight = 31;
  let printing = false;
  let focused = -1; // the layer that Tab reaches

  // The unknown first, as what nobody knows may be the largest; then by size, the largest first.
  function compare(column, descending) {
    const text = column.kind.startsWith("text") && column.key !== "outputs";
    const none = column.none || ((i) => unknown(column.value(i)));
    const size = (i) => (none(i) ? Infinity : column.value(i) === "" ? -1 : number(column.value(i)));
    const keys = text ? L.name.map((_, i) => String(column.value(i)).toLowerCase()) : L.name.map((_, i) => size(i));
    const way = descending ? -1 : 1;
    return (a, b) => (keys[a] < keys[b] ? -way : keys[a] > keys[b] ? way : a - b);
  }
  const texts = L.name.map((name, i) => `${name}\n${opOf(i)}\n${L.scope[i] || ""}`.toLowerCase());
  function arrange() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const op = filterOp.value === "" ? -1 : Number(filterOp.value);
    order = d3.range(count).filter((i) => (op < 0 || L.op[i] === op) && words.every((word) => texts[i].includes(word)));
    const column = COLUMNS.find((c) => c.key === sorting.key);
    order.sort(compare(column, sorting.descending));
  }

  function cell(column, i, largest) {
    if (column.bar) {
      const bar = make("i", {});
      bar.style.width = `${largest ? Math.max(0, (100 * number(counts()[i])) / largest) : 0}%`;
      return make("td", { class: column.kind }, make("span", {}, bar, make("b", {}, counts()[i] === "" ? "–" : column.text(i))));
    }
    const text = column.text(i);
    const mood = text === "?" ? " unknown" : text === "0" || text === "–" ? " zero" : "";
    const made = make("td", { class: column.kind + mood, title: column.kind.startsWith("text") ? text : text === "?" ? L.note[i] || "unknown" : null, "data-key": column.key }, column.room ? cut(text, column.room) : text);
    if (column.dot) { const dot = make("i", { class: "dot" }); dot.style.background = colourOf(i); made.prepend(dot); }
    return made;
  }
  function row(at, columns, largest) {
    const i = order[at];
    const chosen = i === flopwise.state.chosen;
    return make("tr", { "data-layer": i, "aria-rowindex": at + 2, "aria-selected": chosen ? "true" : "false", class: chosen ? "chosen" : null, tabindex: i === focused ? "0" : "-1" }, ...columns.map((column) => cell(column, i, largest)));
  }
  const filler = (rows, columns) => {
    const made = make("tr", { class: "filler", "aria-hidden": "true" }, make("td", { colspan: columns.length }));
    made.firstChild.style.height = `${rows * rowHeight}px`;
    return made;
  };

  let body, largest, columns;
  function draw() {
    arrange();
    columns = shownColumns();
    largest = d3.max(counts(), number) || 0;
    if (focused < 0 || !order.includes(focused)) focused = order.length ? order[0] : -1;
    const head = make("tr", {}, ...columns.map((column) => {
      const way = sorting.key === column.key ? (sorting.descending ? "descending" : "ascending") : "none";
      return make("th", { scope: "col", class: column.kind, "aria-sort": way, "data-key": column.key }, printing ? column.title() : make("button", { type: "button", onclick: () => sortBy(column) }, column.title()));
    }));
    const own = (column) => sum(order.map((i) => column.sums()[i]).filter((value) => value !== "" && !unknown(value)));
    const gap = (column) => order.some((i) => unknown(column.sums()[i]));
    const foot = make("tr", {}, ...columns.map((column) => {
      if (column.key === "name") return make("td", { class: column.kind }, order.length === count ? "Total" : `Total of ${noun(order.length, "layer")}`);
      return make("td", { class: column.kind.replace("meter", ""), "data-key": column.key }, column.sums ? `${gap(column) ? "≥ " : ""}${own(column).toLocaleString("en-US")}` : "");
    }));
    body = make("tbody", {});
    box.replaceChildren(make("table", { class: "layers", "aria-rowcount": order.length + 1, "aria-label": "Layers" }, make("thead", {}, head), body, make("tfoot", {}, foot)));
    drawn = [-1, -1];
    rows();
    if (!order.length) body.append(make("tr", {}, make("td", { class: "empty", colspan: columns.length }, count ? "No layer fits the filter." : "The model has no layers.")));
    const held = printing && order.length > PRINTED ? `; the first ${PRINTED} in this order are printed` : "";
    document.getElementById("layers-sub").textContent = (order.length === count ? noun(count, "layer") : `${order.length.toLocaleString("en-US")} of ${noun(count, "layer")}`) + held;
  }

  // The rows in view and some above and below.
  function rows() {
    let [from, to] = [0, printing ? Math.min(order.length, PRINTED) : order.length];
    if (!printing && order.length > ALL) {
      const seen = Math.ceil((box.clientHeight || 700) / rowHeight);
      from = Math.max(0, Math.floor(box.scrollTop / rowHeight) - 20);
      to = Math.min(order.length, from + seen + 60);
      if (drawn[0] >= 0 && from >= drawn[0] && to <= drawn[1]) return;
      from = Math.max(0, from - 20);
      if (drawn[0] === from && drawn[1] === to) return;
    } else if (drawn[0] === from && drawn[1] === to) return;
    const held = body.contains(document.activeElement) ? Number(document.activeElement.dataset.layer) : -1;
    drawn = [from, to];
    const made = d3.range(from, to).map((at) => row(at, columns, largest));
    if (from > 0) made.unshift(filler(from, columns));
    if (to < order.length && !printing) made.push(filler(order.length - to, columns));
    body.replaceChildren(...made);
    if (held >= 0) body.querySelector(`[data-layer="${held}"]`)?.focus({ preventScroll: true });
    const first = body.querySelector("tr[data-layer]");
    if (first && !printing) rowHeight = first.getBoundingClientRect().height || rowHeight;
  }

  function sortBy(column) {
    const descending = column.first !== "ascending";
    if (sorting.key === column.key) sorting.descending = !sorting.descending;
    else Object.assign(sorting, { key: column.key, descending });
    box.scrollTop = 0;
    draw();
    box.querySelector(`th[data-key="${column.key}"] button`).focus();
  }

  function bring(i, focus = false) {
    const at = order.indexOf(i);
    if (at < 0) return false;
    const top = at * rowHeight, high = box.clientHeight - 36 - 34;
    if (top < box.scrollTop || top + rowHeight > box.scrollTop + high) box.scrollTop = Math.max(0, top - high / 2);
    rows();
    if (focus) {
      body.querySelectorAll('tr[tabindex="0"]').forEach((tr) => tr.setAttribute("tabindex", "-1"));
      focused = i;
      const tr = body.querySelector(`[data-layer="${i}"]`);
      tr?.setAttribute("tabindex", "0");
      tr?.focus({ preventScroll: true });
    }
    return true;
  }
  function mark() {
    body.querySelectorAll("tr.chosen").forEach((tr) => { tr.classList.remove("chosen"); tr.setAttribute("aria-selected", "false"); });
    const tr = body.querySelector(`[data-layer="${flopwise.state.chosen}"]`);
    tr?.classList.add("chosen");
    tr?.setAttribute("aria-selected", "true");
  }
  const clear = () => { filter.value = ""; filterOp.value = ""; draw(); };

  box.addEventListener("scroll", () => requestAnimationFrame(rows), { passive: true });
  box.addEventListener("click", (event) => {
    const tr = event.target.closest("tr[data-layer]");
    if (!tr) return;
    flopwise.choose(Number(tr.dataset.layer), "table");
    bring(Number(tr.dataset.layer), true);
  });
  box.addEventListener("keydown", (event) => {
    const tr = event.target.closest("tr[data-layer]");
    if (!tr) return;
    const at = order.indexOf(Number(tr.dataset.layer));
    const page = Math.max(1, Math.floor(box.clientHeight / rowHeight) - 3);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: order.length - 1 }[event.key];
    if (to !== undefined) {
      const next = order[Math.max(0, Math.min(order.length - 1, to))];
      flopwise.choose(next, "keys");
      bring(next, true);
    } else if (event.key === "Enter" || event.key === " ") flopwise.emit("show-graph", Number(tr.dataset.layer));
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) { event.preventDefault(); filter.focus(); }
  });
  filter.addEventListener("input", () => { box.scrollTop = 0; draw(); });
  filterOp.append(make("option", { value: "" }, "all"));
  data.ops.map((name, op) => [name, op]).sort((a, b) => (a[0] < b[0] ? -1 : 1)).forEach(([name, op]) => filterOp.append(make("option", { value: op }, name)));
  filterOp.addEventListener("change", () => { box.scrollTop = 0; draw(); });
  document.getElementById("filter-clear").addEventListener("click", clear);
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });

  flopwise.on("counts", draw);
  flopwise.on("choose", (layer) => { mark(); if (layer >= 0) bring(layer); });
  flopwise.on("filter-op", (op) => {
    filter.value = "";
    filterOp.value = op;
    Object.assign(sorting, { key: "count", descending: true });
    box.scrollTop = 0;
    draw();
    document.getElementById("layers").scrollIntoView();
  });
  flopwise.on("show-table", (layer) => {
    if (!order.includes(layer)) clear();
    document.getElementById("layers").scrollIntoView();
    bring(layer, true);
  });
  draw();
})();
