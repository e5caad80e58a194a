"use strict";
// The tables of a report, one below the other: a click on a title sorts, words filter.
(() => {
  const { data, make, noun } = flopwise;
  const SOME = 12; // more lines than these have a filter
  document.getElementById("bar-model").textContent = data.title;
  document.getElementById("title").textContent = data.title;

  const bare = (text) => Number(text.replace(/[,\s%]/g, ""));
  function table(sheet, box) {
    const sorting = { column: -1, way: 1 };
    let words = [];
    // Figures by size, the unknown first, everything else as text.
    const key = (line, column) => {
      const [text, right] = [line[0][column], sheet.heads[column][1]];
      return right ? (Number.isNaN(bare(text)) || text === "" ? Infinity : bare(text)) : text.toLowerCase();
    };
    function sortBy(column) {
      const first = sheet.heads[column][1] ? -1 : 1;
      Object.assign(sorting, sorting.column === column ? { way: -sorting.way } : { column, way: first });
      draw();
      box.querySelectorAll("th button")[column].focus();
    }
    function draw() {
      const lines = sheet.lines.filter(([cells]) => words.every((word) => cells.some((cell) => cell.toLowerCase().includes(word))));
      const { column, way } = sorting;
      if (column >= 0) lines.sort((a, b) => (key(a, column) < key(b, column) ? -way : key(a, column) > key(b, column) ? way : 0));
      const kind = ([, right, prose]) => (right ? "num" : prose ? "text prose" : "text");
      const cell = (text, at, indent = 0) => {
        const made = make("td", { class: kind(sheet.heads[at]), title: sheet.heads[at][1] ? null : text }, text);
        if (at === 0 && indent) made.style.paddingLeft = `${8 + 8 * indent}px`;
        return made;
      };
      const head = sheet.heads.map((one, at) => make("th", { scope: "col", class: kind(one), "aria-sort": at !== column ? "none" : way < 0 ? "descending" : "ascending" }, make("button", { type: "button", onclick: () => sortBy(at) }, one[0])));
      const body = lines.map(([cells, mark, indent]) => make("tr", { class: mark || null }, ...cells.map((text, at) => cell(text, at, indent))));
      const whole = sheet.total && lines.length === sheet.lines.length;
      const foot = whole ? make("tfoot", {}, make("tr", {}, ...sheet.total.map((text, at) => cell(text, at)))) : null;
      box.replaceChildren(make("table", { class: "layers" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body), foot));
    }
    draw();
    return (text) => { words = text.toLowerCase().split(/\s+/).filter(Boolean); draw(); };
  }

  data.sheets.forEach((sheet, place) => {
    const section = make("section", { class: "panel sheet", "aria-label": `Table ${place + 1}` });
    document.getElementById("tables").append(section);
    if (sheet.verdict) section.append(make("p", { class: "verdict" }, sheet.verdict));
    if (sheet.about.length) section.append(make("p", { class: "sub" }, sheet.about.join(" · ")));
    if (sheet.lines.length) {
      const box = make("div", { class: "table-box" });
      const tools = make("div", { class: "tools" });
      section.append(tools, box);
      const filter = table(sheet, box);
      tools.append(flopwise.saver(`table ${place + 1}`, () => [sheet.heads.map(([title]) => title), ...sheet.lines.map(([cells]) => cells.map((cell, at) => (sheet.heads[at][1] ? cell.replaceAll(",", "") : cell)))]));
      flopwise.cue(box);
      if (sheet.lines.length > SOME) tools.prepend(make("label", { class: "search" }, make("span", { class: "visually-hidden" }, "Filter"), make("input", { type: "search", placeholder: `Filter ${noun(sheet.lines.length, "line")}`, autocomplete: "off", spellcheck: "false", oninput: (event) => filter(event.target.value) })));
    }
    if (sheet.summary.length) section.append(make("table", { class: "figures" }, make("tbody", {}, ...sheet.summary.map(([name, exact, short]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, exact), make("td", {}, short))))));
    if (sheet.notes.length) section.append(make("ul", {}, ...sheet.notes.map((note) => make("li", {}, note))));
  });
})();
