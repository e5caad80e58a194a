"use strict";
// What the page is about, its figures, its notes, and the table of prompt, step and request.
(() => {
  const { data, make } = flopwise;
  flopwise.introduce(data.model, data.about, data.summary, data.notes);
  document.getElementById("verdict").textContent = data.verdict;
  document.getElementById("cards").append(...data.cards.map(([title, value, more]) => make("div", { class: "card" }, make("div", { class: "title" }, title), make("div", { class: "value" }, value), make("div", { class: "exact" }, more))));
  document.getElementById("costs-head").append(make("tr", {}, ...data.heads.map((title, place) => place ? make("th", { scope: "col", class: "figure" }, title) : make("td", {}))));
  document.getElementById("costs-body").append(...data.lines.map(([title, ...cells]) => make("tr", {}, make("th", { scope: "row" }, title), ...cells.map(([short, exact]) => make("td", { class: "figure", title: exact }, short)))));
})();
