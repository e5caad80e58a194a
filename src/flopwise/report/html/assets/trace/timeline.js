"use strict";
// The events of the step on a canvas: a line for each thread or stream, and above them the layers and modules that they
// are of. Events of a line follow one another, so that those in view are found by bisection; of events that share a
// pixel one is drawn, and the text below says how many are not.
(() => {
  const { data, make, tip, untip, time, noun, percent, groups, opOf, state } = flopwise;
  const T = data.timeline, L = data.layers;
  const section = document.getElementById("timeline"), box = document.getElementById("lanes");
  const [tools, key, hint, find, says, found, spoken] = ["timeline-tools", "timeline-key", null, "find", "timeline-says", "find-says", "event-says"].map((id) => id && document.getElementById(id));
  if (!T) {
    document.getElementById("timeline-sub").textContent = "This trace has no times of day, so that nothing can be drawn along them.";
    [tools, key, box, says, found, section.querySelector(".hint")].forEach((element) => { element.hidden = true; });
    return;
  }
  const HIGH = 18, TITLE = 17, GAP = 5, TOP = 30, LEVELS = 12, LANES = 100, LEAST = 20, LETTER = 6.6, PALE = 0.62, FAINT = 0.16;

  // Events by number: begin and end in nanoseconds from the first one on, layer, pass, lane and kernel.
  const count = T.start.length;
  const begin = new Float64Array(count), end = new Float64Array(count);
  T.start.reduce((at, step, i) => { begin[i] = at + step; end[i] = begin[i] + T.time[i]; return begin[i]; }, 0);
  const layerOf = (i) => (T.place[i] < 0 ? -1 : T.place[i] >> 1), isBackward = (i) => T.place[i] >= 0 && (T.place[i] & 1) === 1;
  const whole = Math.max(d3.max(end) || 1, d3.max(T.steps, (step) => step[2]) || 1);
  const onPath = new Uint8Array(count);
  T.path.forEach((i) => { onPath[i] = 1; });

  // What lies on a line one after the other: begin, end, and what they are; parts that overlap take a further level.
  function levels(items) {
    const made = [], lasts = [];
    let deeper = 0;
    for (const item of items) {
      let at = lasts.findIndex((last) => last <= item.begin);
      if (at < 0) at = lasts.length;
      if (at >= LEVELS) { deeper++; continue; }
      (made[at] ||= []).push(item);
      lasts[at] = item.end;
    }
    return { levels: made.length ? made : [[]], deeper };
  }
  const eventOf = (i) => ({ begin: begin[i], end: end[i], event: i, layer: layerOf(i), backward: isBackward(i) });
  const laneEvents = T.lanes.map(() => []);
  for (let i = 0; i < count; i++) laneEvents[T.lane[i]].push(eventOf(i));
  const busy = laneEvents.map((items) => d3.sum(items, (item) => item.end - item.begin));
  const order = d3.range(T.lanes.length).sort((a, b) => busy[b] - busy[a]).slice(0, LANES);

  // Events of the same layer, or module, that follow one another on a lane are one.
  function runs(same, name) {
    const spans = [];
    for (const lane of order) {
      let last = null;
      for (const item of laneEvents[lane]) {
        const what = same(item.layer);
        if (what < 0) { last = null; continue; }
        if (last && last.what === what && last.backward === item.backward) { last.end = Math.max(last.end, item.end); continue; }
        last = { begin: item.begin, end: item.end, what, layer: item.layer, backward: item.backward, name: name(what) };
        spans.push(last);
      }
    }
    return spans.sort((a, b) => a.begin - b.begin);
  }
  const topmost = new Map(); // the outermost module of a layer below the one in which the model begins
  function moduleOf(layer) {
    if (layer < 0 || L.remainder[layer]) return -1;
    if (!topmost.has(layer)) {
      let at = L.group[layer];
      while (at >= 0 && groups[at].parent !== flopwise.top && groups[at].parent >= 0) at = groups[at].parent;
      topmost.set(layer, at >= 0 && groups[at].parent === flopwise.top && !groups[at].run ? at : -1);
    }
    return topmost.get(layer);
  }
  const tracks = [];
  const add = (title, items, kind) => { const made = levels(items); if (made.levels[0].length) tracks.push({ title, kind, ...made }); };
  if (T.steps.length > 1) add("steps", T.steps.map(([name, from, to]) => ({ begin: from, end: to, name, layer: -1 })), "span");
  add("modules", runs(moduleOf, (group) => groups[group].name), "span");
  add("layers", runs((layer) => (layer < 0 || L.remainder[layer] ? -1 : layer), (layer) => L.name[layer]), "layer");
  add("critical path", T.path.map(eventOf), "event");
  order.forEach((lane) => add(T.lanes[lane] || "lane", laneEvents[lane], "event"));
  let bottom = TOP;
  tracks.forEach((track) => { track.at = bottom; bottom += TITLE + track.levels.length * HIGH + GAP; });

  const deeper = d3.sum(tracks, (track) => track.deeper);
  const waits = T.waits_ns > 0 ? ` and ${time(T.waits_ns)} of waiting between them` : "";
  const left = T.events - count;
  document.getElementById("timeline-sub").textContent = [
    `${noun(T.events, "event")} on ${noun(T.lanes.length, "lane")} (threads or streams) in ${time(whole)}.`,
    `Critical path: ${noun(T.path.length, "event")} of ${time(T.path_ns)}${waits}; it goes back from the event that ends last, each time to the one that ended last before it began, as traces name no dependencies.`,
    left ? `The page holds the ${count.toLocaleString("en-US")} longest events; the ${left.toLocaleString("en-US")} others took ${time(T.left_ns)} together.` : "",
    T.lanes.length > LANES ? `Of the lanes the ${LANES} busiest are drawn.` : "",
    deeper ? `${noun(deeper, "event")} within more than ${LEVELS} others ${deeper === 1 ? "is" : "are"} not drawn.` : "",
  ].filter(Boolean).join(" ");
  key.append(...flopwise.key.map(([name, kind]) => { const dot = make("i", { class: "dot" }); dot.style.background = `var(--k-${kind})`; return make("span", {}, dot, name); }));
  if (T.place.some((place) => place >= 0 && place & 1)) key.append(make("span", {}, "paler: backward"));

  const canvas = make("canvas", { tabindex: 0, role: "application", "aria-roledescription": "timeline", "aria-label": `Timeline of ${noun(T.events, "event")}; arrow keys go from event to event. The table of layers has the same times.` });
  box.append(canvas);
  const context = canvas.getContext("2d");

  // Colours of the style sheet, as they are now, and in light ones on paper.
  let printing = false, colours = null;
  function paint() {
    const probe = make("i", {});
    if (printing) probe.style.colorScheme = "light";
    box.append(probe);
    const read = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
    colours = Object.fromEntries([...["ground", "text", "muted", "line", "line-strong", "mark", "accent", "accent-soft", "sunken"].map((name) => [name, read(name)]), ...data.kinds.flatMap((kind) => [[`k-${kind}`, read(`k-${kind}`)], [`on-k-${kind}`, read(`on-k-${kind}`)]])]);
    probe.remove();
  }

  let view = [0, whole], width = 0, lit = false, matches = null, match = -1, cursor = null, drawn = 0, hidden = 0;
  const scale = () => width / (view[1] - view[0]);
  // The first of a level that ends after a time.
  function after(level, at, from = 0) {
    let to = level.length;
    while (from < to) { const middle = (from + to) >> 1; if (level[middle].end > at) to = middle; else from = middle + 1; }
    return from;
  }
  const fits = (item) => !matches || (item.event !== undefined ? matches.has[item.event] === 1 : item.layer >= 0 && matches.layers.has(item.layer));
  const strength = (item) => (fits(item) && (!lit || item.event === undefined || onPath[item.event]) ? 1 : FAINT);
  const nameOf = (item) => item.name ?? (item.layer < 0 ? data.kernels[T.kernel[item.event]] : L.remainder[item.layer] ? L.name[item.layer] : data.kernels[T.kernel[item.event]] || L.name[item.layer]);

  function bar(item, left, wide, y, kind) {
    const plain = kind === "span";
    context.globalAlpha = strength(item) * (item.backward && !plain ? PALE : 1);
    context.fillStyle = plain ? colours["accent-soft"] : colours[`k-${item.layer < 0 ? 10 : L.kind[item.layer]}`];
    context.fillRect(left, y, wide, HIGH - 2);
    context.globalAlpha = 1;
    if (wide >= LEAST * 1.6 && strength(item) === 1) {
      const room = Math.floor((wide - 8) / LETTER), name = nameOf(item);
      if (room >= Math.min(3, name.length)) {
        context.fillStyle = plain || item.backward ? colours.text : colours[`on-k-${item.layer < 0 ? 10 : L.kind[item.layer]}`];
        context.fillText(flopwise.cut(name, room), left + 4, y + HIGH / 2 - 1);
      }
    }
    if (item.layer >= 0 && item.layer === state.chosen && kind !== "span") { context.strokeStyle = colours.text; context.lineWidth = 2; context.strokeRect(left + 0.5, y + 1, Math.max(wide - 1, 1), HIGH - 4); }
    if (cursor && cursor.item === item) { context.strokeStyle = colours.mark; context.lineWidth = 2; context.strokeRect(left - 0.5, y - 0.5, Math.max(wide + 1, 2), HIGH - 1); }
  }
  function drawLevel(level, y, kind, counts) {
    const k = scale();
    let at = after(level, view[0]);
    while (at < level.length && level[at].begin < view[1]) {
      const item = level[at], from = (item.begin - view[0]) * k, to = (item.end - view[0]) * k;
      if (to - from >= 1) {
        const [a, b] = [Math.max(from, -2), Math.min(to, width + 2)];
        bar(item, a, Math.max(b - a - (b - a > 4 ? 1 : 0), 1), y, kind);
        at++;
      } else {
        const [first, last] = [Math.floor(from), Math.floor(to)];
        bar(item, first, last - first + 1, y, kind);
        const next = Math.max(at + 1, after(level, view[0] + (last + 1) / k, at + 1));
        if (counts && kind === "event") hidden += next - at - 1;
        at = next;
      }
      if (counts) drawn++;
    }
  }
  function draw() {
    if (!width) return;
    if (!colours) paint();
    const ratio = Math.min(devicePixelRatio || 1, 2), k = scale();
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(bottom * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = Math.round(bottom * ratio); canvas.style.width = `${width}px`; canvas.style.height = `${bottom}px`; }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, bottom);
    context.fillStyle = colours.ground;
    context.fillRect(0, 0, width, bottom);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    // where the view is in the whole, and the scale
    context.fillStyle = colours.line;
    context.fillRect(0, 0, width, 4);
    context.fillStyle = colours.accent;
    context.fillRect((view[0] / whole) * width, 0, Math.max(((view[1] - view[0]) / whole) * width, 3), 4);
    const ticks = d3.ticks(view[0], view[1], Math.max(2, Math.floor(width / 110)));
    const [size, unit] = view[1] >= 1e9 ? [1e9, "s"] : view[1] >= 1e6 ? [1e6, "ms"] : view[1] >= 1e3 ? [1e3, "µs"] : [1, "ns"];
    const places = Math.max(0, Math.ceil(-Math.log10((ticks[1] - ticks[0]) / size || 1) - 1e-9));
    for (const tick of ticks) {
      const x = (tick - view[0]) * k;
      context.fillStyle = colours.line;
      context.fillRect(Math.round(x), 10, 1, bottom);
      context.fillStyle = colours.muted;
      if (x < width - 40) context.fillText(`${(tick / size).toFixed(places)} ${unit}`, x + 4, 17);
    }
    drawn = 0;
    hidden = 0;
    for (const track of tracks) {
      const lane = track.kind === "event" && track.title !== "critical path";
      context.fillStyle = colours.muted;
      context.fillText(flopwise.cut(track.title, Math.floor(width / LETTER)), 4, track.at + TITLE / 2);
      track.levels.forEach((level, at) => {
        const y = track.at + TITLE + at * HIGH;
        drawLevel(level, y, track.kind, lane);
        // What was found is drawn over what shares its pixel.
        if (matches) drawLevel(matchedOf(level), y, track.kind, false);
        if (lit && !matches && track.kind === "event") drawLevel(pathOf(level), y, track.kind, false);
      });
    }
    box.dataset.drawn = drawn;
    box.dataset.hidden = hidden;
    says.textContent = `In view: ${time(view[1] - view[0])} from ${time(view[0])} on, ${noun(drawn, "event")} drawn${hidden ? `; ${noun(hidden, "event")} narrower than a pixel not drawn beside others there: zoom in` : ""}.`;
  }
  let subsets = new Map();
  function subset(level, test) {
    const known = subsets.get(level);
    if (known) return known;
    const made = level.filter(test);
    subsets.set(level, made);
    return made;
  }
  const matchedOf = (level) => subset(level, fits), pathOf = (level) => subset(level, (item) => item.event === undefined || onPath[item.event]);
  let waiting = false;
  function again() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); } }

  function look(from, to) {
    const size = Math.min(Math.max(to - from, Math.min(LEAST, whole)), whole), start = Math.min(Math.max(from + (to - from - size) / 2, 0), whole - size);
    view = [start, start + size];
    again();
  }
  const zoom = (factor, at = (view[0] + view[1]) / 2) => look(at - (at - view[0]) / factor, at + (view[1] - at) / factor);
  const pan = (by) => { const size = view[1] - view[0], start = Math.min(Math.max(view[0] + by, 0), whole - size); view = [start, start + size]; again(); };
  // Where an item is seen with what is around it.
  function show(item) {
    const size = item.end - item.begin, middle = (item.begin + item.end) / 2;
    const wide = size * scale() >= LEAST && item.end > view[0] && item.begin < view[1];
    if (!wide) look(middle - 12 * Math.max(size, 1), middle + 12 * Math.max(size, 1));
    else if (item.begin < view[0] || item.end > view[1]) pan(middle - (view[0] + view[1]) / 2);
  }

  // What is under the pointer; of what is narrow the nearest.
  function under(event) {
    const area = canvas.getBoundingClientRect(), x = event.clientX - area.left, y = event.clientY - area.top;
    const track = tracks.findLast((one) => y >= one.at + TITLE);
    const at = track ? Math.floor((y - track.at - TITLE) / HIGH) : -1;
    const level = track && track.levels[at];
    if (!level) return null;
    const now = view[0] + x / scale(), near = 2.5 / scale();
    const place = after(level, now - near);
    const [one, other] = [level[place], level[place + 1]];
    if (!one || one.begin > now + near) return null;
    return { track, at, item: other && other.begin <= now && one.end < now ? other : one };
  }
  const laneOf = (item) => (item.event === undefined ? "" : T.lanes[T.lane[item.event]]);
  function facts(item) {
    const layer = item.layer, place = `${time(item.end - item.begin)} from ${time(item.begin)} on${laneOf(item) ? `, ${laneOf(item)}` : ""}`;
    const title = item.event !== undefined && layer >= 0 ? L.name[layer] : nameOf(item);
    const pass = layer >= 0 && !L.remainder[layer] && item.what === undefined ? `${opOf(layer)}${item.backward ? ", backward" : ""}` : item.backward ? "backward" : "";
    const kernel = item.event === undefined ? "" : data.kernels[T.kernel[item.event]];
    const path = item.event !== undefined && onPath[item.event] ? "on the critical path" : "";
    const own = layer >= 0 && (item.event !== undefined || item.what === layer) ? flopwise.layerSays(layer) : [];
    return [title, pass, place, kernel, path, ...own.map((line, at) => (at || !line ? line : `layer: ${line}`))];
  }
  let dragged = null;
  canvas.addEventListener("pointermove", (event) => {
    if (dragged && event.buttons) {
      pan(-(event.clientX - dragged.x) / scale());
      dragged = { x: event.clientX, far: dragged.far + Math.abs(event.clientX - dragged.x) };
      untip();
      return;
    }
    const hit = under(event);
    if (hit) tip(event, ...facts(hit.item)); else untip();
  });
  canvas.addEventListener("pointerleave", untip);
  canvas.addEventListener("pointerdown", (event) => { dragged = { x: event.clientX, far: 0 }; canvas.setPointerCapture?.(event.pointerId); });
  canvas.addEventListener("pointerup", (event) => {
    const still = dragged && dragged.far < 4;
    dragged = null;
    if (!still) return;
    cursor = under(event);
    if (cursor && cursor.item.layer >= 0 && cursor.track.kind !== "span") flopwise.choose(cursor.item.layer, "timeline");
    again();
  });
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(2 ** (-event.deltaY / 240), view[0] + (event.clientX - canvas.getBoundingClientRect().left) / scale()); }
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); pan(event.deltaX / scale()); }
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], line = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") zoom(2);
    else if (event.key === "-") zoom(0.5);
    else if (event.key === "0") look(0, whole);
    else if (step || line) move(step || 0, line || 0);
    else if ((event.key === "Enter" || event.key === " ") && cursor && cursor.item.layer >= 0) flopwise.choose(cursor.item.layer, "timeline");
    else return;
    event.preventDefault();
  });
  function move(step, line) {
    const lines = tracks.flatMap((track) => track.levels.map((level, at) => ({ track, at, level })));
    const now = cursor ? lines.findIndex((one) => one.track === cursor.track && one.at === cursor.at) : lines.findIndex((one) => one.track.kind === "layer");
    const { track, at, level } = lines[Math.min(Math.max(Math.max(now, 0) + line, 0), lines.length - 1)];
    const middle = cursor ? (cursor.item.begin + cursor.item.end) / 2 : view[0];
    const place = cursor && !line ? level.indexOf(cursor.item) + step : after(level, middle);
    const item = level[Math.min(Math.max(place, 0), level.length - 1)];
    if (item) go({ track, at, item });
  }
  function go(to) {
    cursor = to;
    show(to.item);
    const y = to.track.at + to.at * HIGH;
    if (y < box.scrollTop || y + TITLE + HIGH > box.scrollTop + box.clientHeight) box.scrollTop = Math.max(y - 40, 0);
    spoken.textContent = [to.track.title, ...facts(to.item)].filter(Boolean).join(", ");
    again();
  }

  // Events whose layer, operator or kernel has all the words.
  function search() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean), known = new Map();
    subsets = new Map();
    match = -1;
    matches = null;
    if (words.length) {
      matches = { has: new Uint8Array(count), layers: new Set(), list: [] };
      let taken = 0;
      for (let i = 0; i < count; i++) {
        const layer = layerOf(i), pair = `${layer} ${T.kernel[i]}`;
        if (!known.has(pair)) { const text = `${layer < 0 ? "" : `${L.name[layer]} ${opOf(layer)}`} ${data.kernels[T.kernel[i]]}`.toLowerCase(); known.set(pair, words.every((word) => text.includes(word))); }
        if (!known.get(pair)) continue;
        matches.has[i] = 1;
        matches.list.push(i);
        if (layer >= 0) matches.layers.add(layer);
        taken += T.time[i];
      }
      found.textContent = matches.list.length ? `${noun(matches.list.length, "event")} of ${noun(matches.layers.size, "layer")}, ${time(taken)} together, ${percent((100 * taken) / (d3.sum(busy) || 1))} of all events.` : "Nothing found.";
    } else found.textContent = "";
    for (const id of ["find-last", "find-next"]) document.getElementById(id).disabled = !matches || !matches.list.length;
    again();
  }
  function next(step) {
    if (!matches || !matches.list.length) return;
    match = (match + step + matches.list.length) % matches.list.length;
    const event = matches.list[match];
    for (const track of tracks) {
      if (track.kind !== "event" || track.title === "critical path") continue;
      for (let at = 0; at < track.levels.length; at++) {
        const level = track.levels[at], place = after(level, begin[event] - 0.5);
        const item = level.slice(place, place + 50).find((one) => one.event === event);
        if (item) { go({ track, at, item }); return; }
      }
    }
  }
  find.addEventListener("input", search);
  find.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); next(event.shiftKey ? -1 : 1); } });
  const press = (id, act) => document.getElementById(id).addEventListener("click", act);
  press("find-next", () => next(1));
  press("find-last", () => next(-1));
  press("zoom-in", () => zoom(2));
  press("zoom-out", () => zoom(0.5));
  press("zoom-fit", () => look(0, whole));
  press("path", (event) => { lit = !lit; subsets = new Map(); event.currentTarget.setAttribute("aria-pressed", String(lit)); again(); });
  flopwise.on("choose", again);
  flopwise.on("show-timeline", (chosen) => {
    const layer = flopwise.lineOf(chosen);
    const track = tracks.find((one) => one.kind === "layer" && one.levels.flat().some((item) => item.what === layer)) || tracks.find((one) => one.kind === "event" && one.levels.flat().some((item) => item.layer === layer));
    section.scrollIntoView();
    canvas.focus({ preventScroll: true });
    if (!track) return;
    const at = track.levels.findIndex((level) => level.some((item) => item.layer === layer));
    go({ track, at, item: track.levels[at].find((item) => item.layer === layer) });
  });

  const fresh = () => { colours = null; again(); };
  new MutationObserver(fresh).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", fresh);
  addEventListener("beforeprint", () => { printing = true; colours = null; });
  addEventListener("afterprint", () => { printing = false; colours = null; });
  flopwise.sized(box, (room) => { width = room; draw(); });
})();
