"use strict";
// What the page is about, its figures, its notes, and the table of prompt, step and request.
(() => {
  const { data, make } = flopwise;
  document.getElementById("bar-model").textContent = data.model;
  document.getElementById("title").textContent = data.model;
  document.getElementById("about").textContent = data.about;
  document.getElementById("figures").append(...data.summary.map(([title, exact, short]) => make("tr", {}, make("th", { scope: "row" }, title), make("td", {}, exact), make("td", {}, short))));
  const notes = document.getElementById("notes");
  if (data.notes.length) {
    notes.hidden = false;
    notes.open = data.notes.length < 4;
    notes.querySelector("summary").textContent = `${data.notes.length} note${data.notes.length === 1 ? "" : "s"}`;
    notes.querySelector("ul").append(...data.notes.map((note) => make("li", {}, note)));
  }
  document.getElementById("costs-head").append(make("tr", {}, ...data.heads.map((title, place) => make("th", { scope: "col", class: place ? "figure" : "" }, title))));
  document.getElementById("costs-body").append(...data.lines.map(([title, ...cells]) => make("tr", {}, make("th", { scope: "row" }, title), ...cells.map(([short, exact]) => make("td", { class: "figure", title: exact }, short)))));
})();
