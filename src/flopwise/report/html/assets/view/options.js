"use strict";
// The fields of a tab: what is chosen in one is kept for all tabs that have it.
flopwise.options = (() => {
  const { make } = flopwise;
  const form = document.getElementById("options");
  let example = "";
  const values = { ...flopwise.link.options }; // by key; what a tab alone has, by command and key
  const place = (tab, field) => (["inputs", "batch", "dims", "convention", "train"].includes(field.key) && tab.command !== "formula" ? field.key : `${tab.command} ${field.key}`);
  const value = (tab, field) => values[place(tab, field)] ?? (field.initial || field.default);

  function input(tab, field) {
    const set = (text) => { values[place(tab, field)] = text; flopwise.emit("options"); };
    const now = value(tab, field);
    if (field.kind === "flag") return make("input", { type: "checkbox", checked: now !== "", onchange: (event) => set(event.target.checked ? "yes" : "") });
    if (field.kind === "choice") {
      const choices = field.default && field.choices.includes(field.default) ? field.choices : ["", ...field.choices];
      return make("select", { onchange: (event) => set(event.target.value) }, ...choices.map((name) => make("option", { value: name, selected: name === now }, name || "–")));
    }
    return make("input", { "data-key": field.key, type: field.kind === "number" ? "number" : "text", min: field.kind === "number" ? 0 : null, value: now, placeholder: (field.key === "inputs" && example) || field.hint, spellcheck: "false", autocomplete: "off", onchange: (event) => set(event.target.value.trim()) });
  }
  return {
    values,
    // The fields of a tab, and before them the file that stands beside the one that is looked at.
    draw(tab, others, beside, choose) {
      const second = others.length ? make("label", {}, "With", make("select", { onchange: (event) => choose(others[Number(event.target.value)]) }, ...others.map((file, at) => make("option", { value: at, selected: file === beside }, file.name)))) : null;
      form.replaceChildren(...[second, ...tab.fields.map((field) => make("label", {}, field.title, input(tab, field)))].filter(Boolean));
    },
    of: (tab) => Object.fromEntries(tab.fields.map((field) => [field.key, value(tab, field)]).filter(([, text]) => text !== "")),
    // The inputs of the model that is looked at, as examples.
    hint(text) {
      example = text;
      form.querySelectorAll("[data-key=inputs]").forEach((field) => { field.placeholder = field.title = text; });
    },
  };
})();
document.getElementById("options").addEventListener("submit", (event) => event.preventDefault());
