"use strict";
// A table of layers: sorted, filtered, and drawn only where it is looked at when there are many.
// A column has a key, a title(), the class of its cells (kind), the value(i) that is sorted by, and the text(i) of a
// cell; it may have hidden(), none(i) (whether the value is unknown), fill(i) (what stands in the cell), mood(i) (a
// further class), tip(i), and foot(layers) (the cell below). "words" says that values are sorted as text.
// A tree stands layers together in a row that opens: folded() says whether it does, items are its rows, each with its
// layers, its inner items and the item around it, and roots are its outermost items. In their rows a column shows
// group(item), is sorted by size(item), and the column "name" has item.name. A row is a layer, or count + an item.
flopwise.table = ({ box, columns: all, fits, name, empty, total, enter, drawn: shown, tree = null }) => {
  const { count, make, number, unknown, cut } = flopwise;
  const ALL = 400; // with more rows only those in view are in the page
  const PRINTED = 500;
  const sorting = { key: "index", descending: false };
  let layers = d3.range(count); // that fit the filter
  let order = layers; // rows
  const itemOf = (row) => (row >= count ? tree.items[row - count] : null);
  const opened = new Set();
  let drawn = [-1, -1];
  let rowHeight = 31;
  let printing = false;
  let focused = -1; // the row that Tab reaches
  let body, columns;

  // The unknown first, as what is unknown may be the largest; then by size, the largest first.
  function compare(column, descending) {
    const none = column.none || ((i) => unknown(column.value(i)));
    const size = (i) => (i >= count ? column.size(itemOf(i)) : none(i) ? Infinity : column.value(i) === "" ? (column.least ?? -1) : number(column.value(i)));
    const word = (i) => String(i >= count ? column.group(itemOf(i)) : column.value(i)).toLowerCase();
    const keys = new Map();
    const key = (row) => { if (!keys.has(row)) keys.set(row, column.words ? word(row) : size(row)); return keys.get(row); };
    const first = (row) => (row >= count ? itemOf(row).layers[0] : row);
    const way = descending ? -1 : 1;
    return (a, b) => (key(a) < key(b) ? -way : key(a) > key(b) ? way : first(a) - first(b));
  }
  function arrange() {
    layers = d3.range(count).filter(fits());
    const by = compare(all().find((c) => c.key === sorting.key) || all()[0], sorting.descending);
    if (!tree || !tree.folded() || layers.length < count) { order = layers.slice().sort(by); return; }
    const inside = new Set(tree.roots.flatMap((item) => item.layers));
    const rows = [...layers.filter((layer) => !inside.has(layer)), ...tree.roots.map((item) => count + item.index)];
    const opening = (list) => list.sort(by).flatMap((row) => (row >= count && opened.has(row) ? [row, ...opening(itemOf(row).inner.map((item) => count + item.index))] : [row]));
    order = opening(rows);
  }
  // The row that shows a layer, itself or with others; -1 where none does.
  function rowOf(layer) {
    if (layer < 0 || order.includes(layer)) return layer;
    let item = tree && tree.folded() && tree.of(layer);
    while (item && !order.includes(count + item.index)) item = item.around;
    return item ? count + item.index : -1;
  }

  const dotted = (colour, cell) => { const dot = make("i", { class: "dot" }); dot.style.background = colour; cell.prepend(dot); return cell; };
  function itemCell(column, row) {
    const item = itemOf(row);
    if (column.key !== "name") {
      const content = column.group ? column.group(item) : "";
      const text = typeof content === "string" ? content : null;
      const mood = text === "?" ? " unknown" : text === "0" || text === "–" ? " zero" : "";
      const cell = make("td", { class: column.kind + mood, title: text && column.kind.startsWith("text") ? text : null, "data-key": column.key }, text && column.room ? cut(text, column.room) : content);
      return column.dot && text ? dotted(flopwise.colour(item.kind), cell) : cell;
    }
    const open = opened.has(row);
    const sign = item.inner.length ? make("button", { type: "button", class: "twisty", tabindex: "-1", "aria-expanded": String(open), "aria-label": `${open ? "Close" : "Open"} ${item.name}` }) : make("span", { class: "twisty" });
    const cell = make("td", { class: column.kind, title: item.title, "data-key": column.key }, sign, cut(item.name, column.room || 40), item.many > 1 ? make("small", { class: "times" }, ` ×${item.many}`) : null);
    cell.style.paddingLeft = `${4 + 16 * item.depth}px`;
    return cell;
  }
  function cell(column, i) {
    if (i >= count) return itemCell(column, i);
    if (column.fill) return make("td", { class: column.kind, "data-key": column.key }, column.fill(i));
    const text = column.text(i);
    const mood = column.mood ? ` ${column.mood(i)}` : text === "?" ? " unknown" : text === "0" || text === "–" ? " zero" : "";
    const title = column.tip ? column.tip(i) : column.kind.startsWith("text") ? text : null;
    const made = make("td", { class: column.kind + mood, title, "data-key": column.key }, column.room ? cut(text, column.room) : text);
    return column.dot ? dotted(column.dot(i), made) : made;
  }
  function row(at) {
    const i = order[at], item = itemOf(i);
    const picked = flopwise.state.chosen >= 0 && i === rowOf(flopwise.state.chosen);
    const kind = [picked ? "chosen" : "", item && item.inner.length ? "module" : ""].filter(Boolean).join(" ");
    return make("tr", { "data-row": i, "data-layer": item ? null : i, "data-item": item ? item.index : null, "aria-rowindex": at + 2, "aria-selected": picked ? "true" : "false", class: kind || null, tabindex: i === focused ? "0" : "-1" }, ...columns.map((column) => cell(column, i)));
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
      if (column.key === "name") return make("td", { class: column.kind }, total(layers));
      return make("td", { class: column.kind.replace("meter", ""), "data-key": column.key }, column.foot ? column.foot(layers) : "");
    }));
    body = make("tbody", {});
    box.replaceChildren(make("table", { class: "layers", role: "grid", "aria-rowcount": order.length + 1, "aria-label": name }, make("thead", {}, head), body, make("tfoot", {}, foot)));
    drawn = [-1, -1];
    rows();
    if (!order.length) body.append(make("tr", {}, make("td", { class: "empty", colspan: columns.length }, empty())));
    shown(layers, printing && order.length > PRINTED ? `; the first ${PRINTED} in this order are printed` : "");
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
    const held = body.contains(document.activeElement) ? document.activeElement.dataset.row ?? "" : "";
    drawn = [from, to];
    const made = d3.range(from, to).map(row);
    if (from > 0) made.unshift(filler(from));
    if (to < order.length && !printing) made.push(filler(order.length - to));
    body.replaceChildren(...made);
    if (held) body.querySelector(`[data-row="${held}"]`)?.focus({ preventScroll: true });
    const first = body.querySelector("tr[data-row]");
    if (first && !printing) rowHeight = first.getBoundingClientRect().height || rowHeight;
  }

  function sortBy(column) {
    const descending = column.first !== "ascending";
    if (sorting.key === column.key) sorting.descending = !sorting.descending;
    else Object.assign(sorting, { key: column.key, descending });
    box.scrollTop = 0;
    draw();
    box.querySelector(`th[data-key="${column.key}"] button`).focus();
    flopwise.emit("sorted", sorting.key, sorting.descending);
  }

  // Scroll to a row, or to the row that shows a layer.
  function bring(i, focus = false) {
    const row = i >= count ? i : rowOf(i);
    const at = order.indexOf(row);
    if (at < 0) return false;
    const top = at * rowHeight, high = box.clientHeight - 36 - 34;
    if (top < box.scrollTop || top + rowHeight > box.scrollTop + high) box.scrollTop = Math.max(0, top - high / 2);
    rows();
    if (focus) {
      body.querySelectorAll('tr[tabindex="0"]').forEach((tr) => tr.setAttribute("tabindex", "-1"));
      focused = row;
      const tr = body.querySelector(`[data-row="${row}"]`);
      tr?.setAttribute("tabindex", "0");
      tr?.focus({ preventScroll: true });
    }
    return true;
  }
  function mark() {
    body.querySelectorAll("tr.chosen").forEach((tr) => { tr.classList.remove("chosen"); tr.setAttribute("aria-selected", "false"); });
    if (flopwise.state.chosen < 0) return;
    const tr = body.querySelector(`[data-row="${rowOf(flopwise.state.chosen)}"]`);
    tr?.classList.add("chosen");
    tr?.setAttribute("aria-selected", "true");
  }
  function toggle(row, open = !opened.has(row)) {
    if (open) opened.add(row); else opened.delete(row);
    draw();
    bring(row, true);
  }
  // Open what holds a layer, as far down as there are rows.
  function openTo(layer) {
    let item = tree && tree.folded() && tree.of(layer);
    if (!item) return;
    for (item = item.around; item; item = item.around) opened.add(count + item.index);
    draw();
  }
  // Choose the layer of a row, and go to the row; a row that opens is only gone to.
  function go(row, from) {
    const item = itemOf(row);
    if (!item || item.layer !== undefined) flopwise.choose(item ? item.layer : row, from);
    bring(row, true);
  }

  box.addEventListener("scroll", () => requestAnimationFrame(rows), { passive: true });
  box.addEventListener("click", (event) => {
    const tr = event.target.closest("tr[data-row]");
    if (!tr) return;
    const row = Number(tr.dataset.row), item = itemOf(row);
    if (item && item.inner.length) toggle(row);
    else go(row, "table");
  });
  box.addEventListener("keydown", (event) => {
    const tr = event.target.closest("tr[data-row]");
    if (!tr) return;
    const row = Number(tr.dataset.row), item = itemOf(row);
    const opens = item && item.inner.length > 0;
    const at = order.indexOf(row);
    const page = Math.max(1, Math.floor(box.clientHeight / rowHeight) - 3);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: order.length - 1 }[event.key];
    if (to !== undefined) go(order[Math.max(0, Math.min(order.length - 1, to))], "keys");
    else if (event.key === "ArrowRight" && opens) toggle(row, true);
    else if (event.key === "ArrowLeft" && opens && opened.has(row)) toggle(row, false);
    else if (event.key === "ArrowLeft" && item && item.around) go(count + item.around.index, "keys");
    else if ((event.key === "Enter" || event.key === " ") && opens) toggle(row);
    else if (event.key === "Enter" || event.key === " ") enter(item ? item.layer : row);
    else return;
    event.preventDefault();
  });
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });
  flopwise.on("choose", (layer, from) => { if (layer >= 0 && from !== "table" && from !== "keys") openTo(layer); mark(); if (layer >= 0) bring(layer); });
  flopwise.on("sort", (key, descending) => { if (all().some((column) => column.key === key)) { Object.assign(sorting, { key, descending }); draw(); } });
  // Layers in the order of the table, whatever stands folded; figures with all digits.
  const lines = () => [columns.map((column) => column.title()), ...layers.slice().sort(compare(all().find((c) => c.key === sorting.key) || all()[0], sorting.descending)).map((i) => columns.map((column) => { const value = column.value(i); return typeof value === "number" || typeof value === "bigint" ? value : unknown(value) ? "" : column.text ? column.text(i).replaceAll(",", column.kind === "num" ? "" : ",") : value; }))];
  box.closest("section").querySelector(".tools").append(flopwise.saver(name, lines));
  flopwise.cue(box);

  return {
    bring, draw, openTo,
    // From the first row, in an order if one is named.
    again: (key) => { if (key) Object.assign(sorting, { key, descending: true }); box.scrollTop = 0; draw(); },
    shows: (layer) => rowOf(layer) >= 0,
  };
};

// The filter above a table: words, an operator and, where there is a choice of them, a kind of work. "/" goes to it, and
// whatever changes calls back.
flopwise.filters = (texts, changed) => {
  const { data, make } = flopwise;
  const [words, op, work] = ["filter", "filter-op", "filter-work"].map((id) => document.getElementById(id));
  op.append(make("option", { value: "" }, "all"));
  data.ops.map((name, at) => [name, at]).sort((a, b) => (a[0] < b[0] ? -1 : 1)).forEach(([name, at]) => op.append(make("option", { value: at }, name)));
  if (work) {
    const there = new Set(data.layers.kind);
    work.append(make("option", { value: "" }, "all"), ...data.kinds.flatMap((name, at) => (there.has(at) ? [make("option", { value: at }, name)] : [])));
    work.addEventListener("change", changed);
  }
  words.addEventListener("input", changed);
  op.addEventListener("change", changed);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) { event.preventDefault(); words.focus(); }
  });
  return {
    fits() {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      const only = op.value === "" ? -1 : Number(op.value), kind = !work || work.value === "" ? -1 : Number(work.value);
      return (i) => (only < 0 || data.layers.op[i] === only) && (kind < 0 || data.layers.kind[i] === kind) && wanted.every((word) => texts[i].includes(word));
    },
    set(chosen, kind = "") { words.value = ""; op.value = chosen; if (work) work.value = kind; },
  };
};
