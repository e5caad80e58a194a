"use strict";
// The files of the page: dropped, opened, or named when it was started; one is looked at, another may stand beside it.
flopwise.files = (() => {
  const { data, make, service, link } = flopwise;
  const list = document.getElementById("files");
  const files = []; // { key, name, kind, size, of: what the service calls it }
  let looked = null;

  const say = (text, fault = false) => {
    const state = document.getElementById("state");
    document.getElementById("work").hidden = false;
    state.textContent = text;
    state.classList.toggle("fault", fault);
  };
  // Signs that no file name may have here; two files of one drop never share a name.
  const plain = (name) => name.replace(/[\\/:\p{Cc}\p{Cf}]/gu, "_").replace(/^\.+$/, "_");

  async function kinds(added) {
    const answer = await service.ask({ kinds: added.map((file) => file.of) });
    if (answer.error) throw new Error(answer.error);
    added.forEach((file, at) => { file.kind = answer.kinds[at]; });
    files.push(...added);
    const traces = added.filter((file) => file.kind === "trace"), models = added.filter((file) => file.kind && file.kind !== "trace");
    const meant = models.find((file) => file.hash && file.hash === link.model);
    const first = meant || models[0] || (traces.length && looked ? looked : traces[0]);
    if (first) look(first, traces.length ? "trace" : models.length > 1 ? "compare" : first.kind === "language" ? "llm" : "", traces[0] || models[1]);
    else say(`${added.map((file) => file.name).join(", ")}: no model, weights, configuration or trace that flopwise reads here`, true);
    draw();
  }
  async function drop(dropped) {
    const added = [...dropped].map((file) => ({ file, name: plain(file.name) }));
    if (!added.length) return;
    try {
      for (const { file, name } of added) await file.slice(0, 1).arrayBuffer().catch(() => { throw new Error(`${name}: cannot be read; drop files, not folders`); });
      for (const one of added) one.hash = await link.hash(one.file);
    } catch (error) { say(error.message, true); return; }
    // The same file once more takes the place of the first.
    const again = files.filter((old) => old.hash && added.some(({ name, hash }) => name === old.name && hash === old.hash));
    again.forEach((old) => files.splice(files.indexOf(old), 1));
    if (again.length) flopwise.emit("replaced");
    // What is dropped lies by itself only where a name is taken.
    const taken = (number) => files.some((file) => file.of.drop === number && added.some(({ name }) => name === file.name));
    let number = data.drops ?? 0; // other tabs of the browser begin at other numbers
    while (taken(number)) number += 1;
    try {
      await service.add(number, added, say);
      say("");
      await kinds(added.map(({ file, name, hash }) => ({ name, size: file.size, hash, of: { drop: number, name } })));
    } catch (error) { say(error.message, true); }
  }
  // Look at a file, in a tab and beside another file where the drop says which.
  function look(file, tab = "", other = null) {
    looked = file;
    draw();
    flopwise.emit("files", tab, other);
  }
  function remove(file) {
    files.splice(files.indexOf(file), 1);
    if (looked === file) look(files.find((other) => other.kind) || null);
    else look(looked);
  }
  const sized = (file) => (file.size === undefined ? "" : `${flopwise.human(file.size, "B")}`);
  function draw() {
    document.body.classList.toggle("working", files.some((file) => file.kind));
    list.replaceChildren(...files.map((file) => make("li", {},
      make("button", { type: "button", "aria-pressed": String(file === looked), disabled: !file.kind, title: file.name, onclick: () => look(file) }, file.name, make("small", {}, sized(file))),
      make("button", { type: "button", "aria-label": `Remove ${file.name}`, onclick: () => remove(file) }, "×"))));
    document.getElementById("bar-model").textContent = looked ? looked.name : "";
  }

  const pick = document.getElementById("pick");
  document.getElementById("open").addEventListener("click", () => pick.click());
  pick.addEventListener("change", () => { drop(pick.files); pick.value = ""; });
  const over = (is) => document.documentElement.classList.toggle("dragging", is);
  addEventListener("dragenter", () => over(true));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) over(false); });
  addEventListener("drop", (event) => { event.preventDefault(); over(false); drop(event.dataTransfer.files); });
  addEventListener("message", ({ data: { dropped } }) => { if (Array.isArray(dropped) && dropped.every((file) => file instanceof File)) drop(dropped); });

  return {
    say, drop,
    looked: () => looked,
    others: (kinds) => files.filter((file) => file !== looked && kinds.includes(file.kind)),
    begin: async () => {
      if (data.given.length) await kinds(data.given.map((name, given) => ({ name, of: { given } }))).catch((error) => say(error.message, true));
    },
  };
})();
