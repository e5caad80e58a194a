"use strict";
// What is chosen in a page stands in its address, or in that of `flopwise view` around it: `#?convention=macs&sort=-params`.
(() => {
  const { data, on } = flopwise;
  const said = (field) => (field.tagName === "SELECT" ? field.selectedOptions[0]?.textContent ?? "" : field.value);
  const fields = new Map([...document.querySelectorAll("main select[id], main input[id], .controls select[id]")].map((field) => [field.id, field]));
  const usual = new Map([...fields].map(([id, field]) => [id, said(field)]));
  const now = new Map();

  function note(key, value) {
    if (value === "" || value === usual.get(key)) now.delete(key); else now.set(key, value);
    const state = new URLSearchParams([...now]).toString();
    if (parent !== window) parent.postMessage({ state }, "*");
    else history.replaceState(null, "", state ? `#?${state}` : location.href.split("#")[0]);
  }
  for (const kind of ["change", "input"]) {
    addEventListener(kind, ({ target }) => { if (fields.get(target.id) === target) note(target.id, said(target)); }, true);
  }
  on("choose", (layer) => { if (data.layers?.name) note("layer", data.layers.name[layer] ?? ""); });
  on("sorted", (key, descending) => note("sort", `${descending ? "-" : ""}${key}`));

  flopwise.recall = (state) => {
    for (const [key, value] of new URLSearchParams(state)) {
      const field = fields.get(key);
      if (key === "sort") flopwise.emit("sort", value.replace(/^-/, ""), value.startsWith("-"));
      else if (key === "layer") { const layer = data.layers?.name?.indexOf(value) ?? -1; if (layer >= 0) flopwise.choose(layer, "link"); }
      else if (field) {
        const option = [...(field.options || [])].find((one) => one.textContent === value);
        if (field.options && !option) continue;
        field.value = option ? option.value : value;
        field.dispatchEvent(new Event(field.options ? "change" : "input", { bubbles: true }));
      }
    }
  };
  if (location.hash.startsWith("#?")) flopwise.recall(location.hash.slice(2));
})();
