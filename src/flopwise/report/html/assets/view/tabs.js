"use strict";
// The tabs: each asks for its report when it is looked at, and keeps it in a frame as long as nothing changes.
flopwise.tabs = (() => {
  const { data, make, service, files, options, link } = flopwise;
  const bar = document.getElementById("tabs"), view = document.getElementById("view");
  const stop = document.getElementById("stop"), saves = document.getElementById("saves");
  const frames = new Map(); // command -> { key, frame, answer }
  // Sections of a page that are tabs of their own share its frame.
  const all = data.tabs.flatMap((tab) => [{ ...tab, id: tab.command, section: "" }, ...Object.entries(tab.sections).map(([section, title]) => ({ ...tab, title, id: section, section }))]);
  let current = "profile", beside = null, asked = 0;

  const tabOf = (id) => all.find((tab) => tab.id === id);
  const others = (tab) => files.others(tab.beside);
  const open = (tab) => { const file = files.looked(); return !!file && tab.takes.includes(file.kind) && (tab.alone.includes(file.kind) || others(tab).length > 0); };
  const second = (tab) => {
    const there = others(tab);
    if (!there.length) return null;
    return there.includes(beside) ? beside : there[0];
  };
  function question(tab, format) {
    const pair = [files.looked(), tab.alone.includes(files.looked().kind) && tab.command !== "trace" ? null : second(tab)].filter(Boolean);
    return { tab: tab.command, files: pair.map((file) => file.of), options: options.of(tab), format };
  }

  function draw() {
    bar.replaceChildren(...all.map((tab) => make("button", { type: "button", role: "tab", id: `tab-${tab.id}`, "aria-selected": String(tab.id === current), "aria-controls": "view", tabindex: tab.id === current ? "0" : "-1", disabled: !open(tab), onclick: () => show(tab.id) }, tab.title)));
    view.setAttribute("aria-labelledby", `tab-${current}`);
    const chosen = document.getElementById(`tab-${current}`); // on a phone the bar is wider than the screen
    bar.scrollLeft = Math.min(chosen.offsetLeft - bar.offsetLeft, Math.max(bar.scrollLeft, chosen.offsetLeft + chosen.offsetWidth - bar.offsetLeft - bar.clientWidth));
  }
  function frameOf(text, title) {
    // The report runs without an origin: it can reach neither this page nor its server.
    const theme = document.documentElement.dataset.theme;
    const frame = make("iframe", { title, sandbox: "allow-scripts allow-downloads allow-modals", referrerpolicy: "no-referrer" });
    frame.srcdoc = theme ? text.replace('<html lang="en">', `<html lang="en" data-theme="${theme}">`) : text;
    return frame;
  }
  function present(tab) {
    const kept = frames.get(tab?.command);
    frames.forEach(({ frame }, other) => { if (frame) frame.hidden = other !== tab?.command; });
    if (kept?.frame && tab.section !== kept.section) tell(kept.frame, { section: tab.section });
    if (kept) kept.section = tab.section;
    const answer = kept?.answer;
    files.say(answer ? answer.error : "", !!answer && answer.code === 2);
    // Open dimensions come with sizes that an error proposes.
    const sizes = [...(answer?.error || "").matchAll(/--dim (\S+=\d+)/g)].map(([, size]) => size).join("; ");
    document.getElementById("sizes").replaceChildren(...(sizes ? [make("button", { type: "button", class: "small", onclick: () => { options.values.dims = sizes; flopwise.emit("options"); } }, `Take ${sizes}`)] : []));
    document.getElementById("command").textContent = answer?.command || "";
    saves.replaceChildren(...(kept?.frame ? ["html", "json", "csv"].map((format) => make("button", { type: "button", class: "small", onclick: () => save(format) }, format === "html" ? "Page" : format.toUpperCase())) : []), ...(kept?.frame ? [make("button", { type: "button", class: "small", onclick: () => tell(kept.frame, { print: true }) }, "Print")] : []));
  }
  // The inputs of the model as -i takes them, from the data of its page.
  function inputsOf(page) {
    const found = page.match(/<script type="application\/json" id="data">(.*?)<\/script>/s);
    return found ? JSON.parse(found[1]).inputs.map(({ name, dtype, shape }) => `${name}:${dtype}:${shape.replaceAll("×", "x")}`).join("; ") : "";
  }
  async function answered(tab, format) {
    const mine = (asked += 1), began = Date.now();
    const tick = () => { if (mine === asked) files.say(`${tab.title}: working for ${Math.round((Date.now() - began) / 1000)} s`); };
    const ticking = setInterval(tick, 1000);
    stop.hidden = false;
    try { return await service.ask(question(tab, format)); }
    catch (error) { return { code: 2, text: "", error: error.message, command: "" }; }
    finally {
      clearInterval(ticking);
      if (mine === asked) stop.hidden = true;
    }
  }
  async function show(id) {
    const tab = tabOf(id), { command } = tab;
    current = id;
    draw();
    if (!open(tab)) { present(null); return; }
    options.draw(tab, tab.beside.length ? others(tab) : [], second(tab), (file) => { beside = file; show(current); });
    const key = JSON.stringify(question(tab, "html"));
    if (frames.get(command)?.key !== key) {
      files.say(`${tab.title} …`);
      const answer = await answered(tab, "html");
      frames.get(command)?.frame?.remove();
      const frame = answer.text ? frameOf(answer.text, tab.title) : null;
      frames.set(command, { key, frame, answer, section: "", state: "" });
      if (frame) {
        view.append(frame);
        await new Promise((loaded) => { frame.onload = loaded; });
        const chosen = id === link.tab ? link.page() : "";
        if (chosen) tell(frame, { state: chosen });
      }
      if (current !== id) { present(tabOf(current)); return; }
      if (open(tab) && JSON.stringify(question(tab, "html")) !== key) { show(id); return; }
    }
    present(tab);
    if (command === "profile") options.hint(inputsOf(frames.get(command).answer.text));
    remember();
    document.documentElement.dataset.shown = id;
  }
  const remember = () => link.write(current, options.values, frames.get(tabOf(current).command)?.state || "", files.looked()?.hash || "");
  addEventListener("message", ({ source, data: { state } }) => {
    const kept = [...frames.values()].find(({ frame }) => frame && frame.contentWindow === source);
    if (kept && typeof state === "string") { kept.state = state; remember(); }
  });
  async function save(format) {
    const tab = tabOf(current);
    const answer = format === "html" ? frames.get(tab.command).answer : await answered(tab, format);
    present(tab);
    if (!answer.text) { files.say(answer.error, true); return; }
    flopwise.save(`${files.looked().name}.${tab.command}.${format}`, { html: "text/html", json: "application/json", csv: "text/csv" }[format], answer.text);
  }

  // Arrows move from tab to tab: https://www.w3.org/WAI/ARIA/apg/patterns/tabs/.
  bar.addEventListener("keydown", (event) => {
    const there = all.filter(open).map((tab) => tab.id), at = there.indexOf(current);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + there.length, Home: 0, End: there.length - 1 }[event.key];
    if (to === undefined || !there.length) return;
    event.preventDefault();
    show(there[to % there.length]);
    document.getElementById(`tab-${current}`).focus();
  });
  const tell = (frame, message) => frame.contentWindow?.postMessage(message, "*");
  const retheme = () => frames.forEach(({ frame }) => { if (frame) tell(frame, { theme: document.documentElement.dataset.theme }); });
  new MutationObserver(retheme).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  stop.addEventListener("click", () => service.stop());
  flopwise.on("options", () => show(current));
  flopwise.on("replaced", () => { frames.forEach(({ frame }) => frame?.remove()); frames.clear(); });
  // The tab of the address, when the page begins.
  let begun = false;
  function opening() {
    const tab = begun ? "" : link.tab;
    begun = true;
    return tabOf(tab) && open(tabOf(tab)) ? tab : "";
  }
  flopwise.on("files", (wanted, other) => {
    if (other) beside = other;
    if (!files.looked()) { present(null); draw(); return; }
    // One more model is looked at by itself.
    const tab = [opening() || wanted, tabOf(current).beside.length ? "" : current].map(tabOf).find((one) => one && open(one)) || all.find(open);
    show(tab ? tab.id : current);
  });
  return { show, draw };
})();
