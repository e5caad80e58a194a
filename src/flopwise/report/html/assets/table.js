"use strict";
// A table of layers: sorted, filtered, and drawn only where it is looked at when there are many.
// A column has a key, a title(), the class of its cells (kind), the value(i) that is sorted by, and the text(i) of a
// cell; it may have hidden(), none(i) (whether nobody knows the value), fill(i) (what stands in the cell), mood(i) (a
// further class), tip(i), and foot(order) (the cell below). "words" says that values are sorted as text.
flopwise.table = ({ box, columns: all, fits, name, empty, total, enter, drawn: told }) => {
  const { count, make, number, unknown, cut } = flopwise;
  const ALL = 400; // with more layers only the rows in view are in the page
  const PRINTED = 500;
  const sorting = { key: "index", descending: false };
  let order = d3.range(count);
  let drawn = [-1, -1];
  let rowHeight = 31;
  let printing = false;
  let focused = -1; // the layer that Tab reaches
  let body, columns;

  // The unknown first, as what nobody knows may be the largest; then by size, the largest first.
  function compare(column, descending) {
    const none = column.none || ((i) => unknown(column.value(i)));
    const size = (i) => (none(i) ? Infinity : column.value(i) === "" ? (column.least ?? -1) : number(column.value(i)));
    const keys = d3.range(count).map((i) => (column.words ? String(column.value(i)).toLowerCase() : size(i)));
    const way = descending ? -1 : 1;
    return (a, b) => (keys[a] < keys[b] ? -way : keys[a] > keys[b] ? way : a - b);
  }
  function arrange() {
    const wanted = fits();
    order = d3.range(count).filter(wanted);
    order.sort(compare(all().find((c) => c.key === sorting.key) || all()[0], sorting.descending));
  }

  function cell(column, i) {
    if (column.fill) return make("td", { class: column.kind, "data-key": column.key }, column.fill(i));
    const text = column.text(i);
    const mood = column.mood ? ` ${column.mood(i)}` : text === "?" ? " unknown" : text === "0" || text === "–" ? " zero" : "";
    const title = column.tip ? column.tip(i) : column.kind.startsWith("text") ? text : null;
    const made = make("td", { class: column.kind + mood, title, "data-key": column.key }, column.room ? cut(text, column.room) : text);
    if (column.dot) { const dot = make("i", { class: "dot" }); dot.style.background = column.dot(i); made.prepend(dot); }
    return made;
  }
  function row(at) {
    const i = order[at];
    const picked = i === flopwise.state.chosen;
    return make("tr", { "data-layer": i, "aria-rowindex": at + 2, "aria-selected": picked ? "true" : "false", class: picked ? "chosen" : null, tabindex: i === focused ? "0" : "-1" }, ...columns.map((column) => cell(column, i)));
  }
  const filler = (rows) => {
    const made = make("tr", { class: "filler", "aria-hidden": "true" }, make("td", { colspan: columns.length }));
    made.firstChild.style.height = `${rows * rowHeight}px`;
    return made;
  };

  function draw() {
    arrange();
    columns = all().filter((column) => !(column.hidden && column.hidden()));
    if (focused < 0 || !order.includes(focused)) focused = order.length ? order[0] : -1;
    const head = make("tr", {}, ...columns.map((column) => {
      const way = sorting.key === column.key ? (sorting.descending ? "descending" : "ascending") : "none";
      return make("th", { scope: "col", class: column.kind, "aria-sort": way, "data-key": column.key }, printing ? column.title() : make("button", { type: "button", title: column.about || null, onclick: () => sortBy(column) }, column.title()));
    }));
    const foot = make("tr", {}, ...columns.map((column) => {
      if (column.key === "name") return make("td", { class: column.kind }, total(order));
      return make("td", { class: column.kind.replace("meter", ""), "data-key": column.key }, column.foot ? column.foot(order) : "");
    }));
    body = make("tbody", {});
    box.replaceChildren(make("table", { class: "layers", "aria-rowcount": order.length + 1, "aria-label": name }, make("thead", {}, head), body, make("tfoot", {}, foot)));
    drawn = [-1, -1];
    rows();
    if (!order.length) body.append(make("tr", {}, make("td", { class: "empty", colspan: columns.length }, empty())));
    told(order, printing && order.length > PRINTED ? `; the first ${PRINTED} in this order are printed` : "");
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
    const made = d3.range(from, to).map(row);
    if (from > 0) made.unshift(filler(from));
    if (to < order.length && !printing) made.push(filler(order.length - to));
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
    } else if (event.key === "Enter" || event.key === " ") enter(Number(tr.dataset.layer));
    else return;
    event.preventDefault();
  });
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });
  flopwise.on("choose", (layer) => { mark(); if (layer >= 0) bring(layer); });

  return {
    bring, draw,
    // From the first row, in an order if one is named.
    again: (key) => { if (key) Object.assign(sorting, { key, descending: true }); box.scrollTop = 0; draw(); },
    shows: (layer) => order.includes(layer),
  };
};

// The filter above a table: words, and an operator. "/" goes to it, and whatever changes calls back.
flopwise.filters = (texts, changed) => {
  const { data, make } = flopwise;
  const [words, op] = ["filter", "filter-op"].map((id) => document.getElementById(id));
  op.append(make("option", { value: "" }, "all"));
  data.ops.map((name, at) => [name, at]).sort((a, b) => (a[0] < b[0] ? -1 : 1)).forEach(([name, at]) => op.append(make("option", { value: at }, name)));
  words.addEventListener("input", changed);
  op.addEventListener("change", changed);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) { event.preventDefault(); words.focus(); }
  });
  return {
    fits() {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      const only = op.value === "" ? -1 : Number(op.value);
      return (i) => (only < 0 || data.layers.op[i] === only) && wanted.every((word) => texts[i].includes(word));
    },
    set(chosen) { words.value = ""; op.value = chosen; },
  };
};
