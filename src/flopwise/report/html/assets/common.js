"use strict";
// What every page shares: its data, how numbers are written, elements, tips, and which layer is chosen.
const flopwise = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const count = data.layers?.op.length ?? 0;
  const state = { chosen: -1 };
  const listeners = {};

  const on = (event, listener) => (listeners[event] ||= []).push(listener);
  const emit = (event, ...details) => (listeners[event] || []).forEach((listener) => listener(...details));

  // Elements are made here and text is set as text: nothing from a model is ever read as HTML.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "class") element.className = value;
      else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  const digits = /^-?\d+$/;
  const unknown = (value) => value === null || value === undefined;
  // For scales and shares; a large integer travels as text, and so does a figure in symbols, which has no size.
  function number(value) {
    if (typeof value === "number") return value;
    return typeof value === "string" && digits.test(value) ? Number(value) : 0;
  }
  function exact(value) {
    if (unknown(value)) return "?";
    if (value === "") return "–";
    if (typeof value === "string" && !digits.test(value)) return value;
    return BigInt(value).toLocaleString("en-US");
  }
  const prefixes = ["", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q"];
  function parts(value, unit = "") {
    if (unknown(value)) return ["?", ""];
    if (value === "") return ["–", ""];
    if (typeof value === "string" && !digits.test(value)) return [value, unit];
    const size = Math.abs(Number(value));
    if (size < 1000) return [exact(value), unit];
    const [mantissa, power] = Number(value).toExponential(2).split("e");
    const group = Math.min(Math.floor(Number(power) / 3), prefixes.length - 1);
    const shift = Number(power) - 3 * group;
    return [(Number(mantissa) * 10 ** shift).toFixed(Math.max(2 - shift, 0)), prefixes[group] + unit];
  }
  const human = (value, unit = "") => parts(value, unit).join(" ").trim();
  function percent(share) {
    if (share === null || Number.isNaN(share)) return "?";
    return share > 0 && share < 0.05 ? "<0.1 %" : `${share.toFixed(1)} %`;
  }
  // Three significant digits in the unit that suits.
  function time(nanoseconds) {
    if (nanoseconds === null || nanoseconds === undefined) return "?";
    const [size, unit] = nanoseconds >= 1e9 ? [1e9, "s"] : nanoseconds >= 1e6 ? [1e6, "ms"] : nanoseconds >= 1e3 ? [1e3, "µs"] : [1, "ns"];
    const value = nanoseconds / size;
    return `${value >= 100 ? Math.round(value) : Number(value.toPrecision(3))} ${unit}`;
  }
  const sum = (values) => values.reduce((total, value) => total + (typeof value === "string" && !digits.test(value) ? 0n : BigInt(value ?? 0)), 0n);

  // Figures added up as a cell shows it; figures in symbols are not added here.
  function added(list) {
    if (list.some((value) => typeof value === "string" && value !== "" && !digits.test(value))) return "?";
    return `${list.some(unknown) ? "≥ " : ""}${sum(list.filter((value) => value !== "" && !unknown(value))).toLocaleString("en-US")}`;
  }

  // Colours of series, models and operators, from those of kinds of work; the grey of movement for what is left over.
  const SERIES = [0, 6, 5, 3, 2, 4, 8];
  const series = (place) => `var(--k-${SERIES[place] ?? 9})`;
  const onSeries = (place) => `var(--on-k-${SERIES[place] ?? 9})`;
  const noun = (many, one, more = `${one}s`) => `${many.toLocaleString("en-US")} ${many === 1 ? one : more}`;
  const cut = (text, room) => {
    if (text.length <= room) return text;
    if (room < 4) return text.slice(0, Math.max(room, 0));
    const head = Math.floor((room - 1) * 0.4);
    return `${text.slice(0, head)}…${text.slice(text.length - (room - 1 - head))}`;
  };

  function choose(layer, from = "") {
    state.chosen = layer;
    emit("choose", layer, from);
  }

  // A tip beside the pointer: a bold line and more lines.
  const tipBox = document.getElementById("tip");
  function tip(event, title, ...lines) {
    tipBox.replaceChildren(make("b", {}, title), ...lines.filter(Boolean).map((line) => make("div", {}, line)));
    tipBox.hidden = false;
    const box = tipBox.getBoundingClientRect();
    const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - box.width - 14 : event.clientX + 14;
    const above = event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16;
    tipBox.style.left = `${Math.max(left, 8)}px`;
    tipBox.style.top = `${Math.max(above, 8)}px`;
  }
  // What the counts of a convention are called: its unit, and its name where that says more.
  const counted = ({ unit, name }) => (`${unit}s`.toLowerCase() === name ? `${unit}s` : `${unit}s (${name})`);
  const untip = () => { tipBox.hidden = true; };

  const PRINTED = 680; // room on a printed page
  // Charts are drawn anew when their room changes.
  function sized(element, draw) {
    let before = 0;
    const again = () => {
      const width = Math.floor(element.clientWidth);
      if (width && Math.abs(width - before) > 1) { before = width; draw(width); }
    };
    new ResizeObserver(again).observe(element);
    again();
    addEventListener("beforeprint", () => draw(PRINTED));
    addEventListener("afterprint", () => draw(before || PRINTED));
    return () => draw(before || PRINTED);
  }
  const svg = (element, width, height, label) => d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img").attr("aria-label", label).call((made) => { element.replaceChildren(made.node()); });

  // A line across a chart and a label for each tick of a scale: upright ones for x, over the labels, level ones for y.
  function grid(chart, axis, scale, ticks, [from, to], label, [line, text] = ["grid", null]) {
    const [other, spot] = axis === "x" ? ["y", (at) => [at, to + 18]] : ["x", (at) => [from - 8, at + 4]];
    for (const tick of ticks) {
      const at = scale(tick), [x, y] = spot(at);
      chart.append("line").attr("class", line).attr(`${axis}1`, at).attr(`${axis}2`, at).attr(`${other}1`, from).attr(`${other}2`, to);
      chart.append("text").attr("class", text).attr("x", x).attr("y", y).attr("text-anchor", axis === "x" ? "middle" : "end").text(label(tick));
    }
  }

  // What a screen reader says of parts of a drawing; the texts that are seen are hidden from it.
  const said = (parts, text) => parts.append("text").attr("class", "said").text(text);

  // A cue at each edge beyond which a box has more to scroll to.
  function cue(box) {
    const frame = make("div", { class: "cue" });
    box.replaceWith(frame);
    frame.append(box);
    const look = () => {
      const [x, y] = [box.scrollLeft, box.scrollTop];
      const more = { left: x > 1, right: x + box.clientWidth < box.scrollWidth - 1, up: y > 1, down: y + box.clientHeight < box.scrollHeight - 1 };
      for (const [edge, is] of Object.entries(more)) frame.classList.toggle(`more-${edge}`, is);
      // what scrolls can be reached by the keyboard
      if (!box.querySelector("tr[tabindex]")) { if (Object.values(more).some(Boolean)) box.tabIndex = 0; else box.removeAttribute("tabindex"); }
    };
    box.addEventListener("scroll", () => requestAnimationFrame(look), { passive: true });
    new ResizeObserver(look).observe(box);
    new MutationObserver(() => requestAnimationFrame(look)).observe(box, { childList: true, subtree: true });
    look();
  }

  // The head of a page of figures: what it is about, the figures as they are and in short, and the notes.
  function introduce(title, about, figures, remarks) {
    document.getElementById("bar-model").textContent = title;
    document.getElementById("title").textContent = title;
    document.getElementById("about").textContent = about;
    document.getElementById("figures").append(...figures.map(([name, exact, short]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, exact), make("td", {}, short))));
    const notes = document.getElementById("notes");
    if (!remarks.length) return;
    notes.hidden = false;
    notes.open = remarks.length < 4;
    notes.querySelector("summary").textContent = `${remarks.length} note${remarks.length === 1 ? "" : "s"}`;
    notes.querySelector("ul").append(...remarks.map((remark) => make("li", {}, remark)));
  }

  // A file for the user, and lines of cells as CSV; what a spreadsheet would take for a formula begins with an apostrophe.
  function save(name, type, content) {
    const url = URL.createObjectURL(new Blob([content], { type }));
    make("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }
  const inert = (text) => (/^[\s"]*[-=+@\t\r\u2212\uff0b\uff0d\uff1d\uff20\ufe62\ufe63\ufe66\ufe6b]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text);
  const csv = (lines) => lines.map((cells) => cells.map((cell) => { const text = inert(String(cell ?? "")); return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; }).join(",")).join("\n") + "\n";
  // The button that saves a table; lines() gives its titles and cells.
  const saver = (name, lines) => make("button", { type: "button", class: "saves", "aria-label": `Save ${name} as CSV`, onclick: () => save(`${name}.csv`, "text/csv", csv(lines())) }, "CSV");

  return { saver, save, csv, cue, grid, introduce, said, data, count, state, on, emit, make, number, unknown, exact, parts, human, percent, time, sum, added, series, onSeries, noun, counted, cut, choose, tip, untip, sized, svg };
})();
