"use strict";
// What the page is about and its figures; which colour an operator has.
flopwise.zoo = (() => {
  const { data, make, parts, exact, number, noun } = flopwise;
  document.getElementById("bar-model").textContent = data.name;
  document.getElementById("title").textContent = data.name;
  const totals = new Map(data.totals);
  const failed = number(totals.get("failed"));
  document.getElementById("about").textContent = `${noun(number(totals.get("models")), "model")} of ${noun(number(totals.get("families")), "family", "families")}${failed ? `, ${exact(failed)} more failed` : ""}. MACs and FLOPs in flopwise's own count.`;
  document.getElementById("cards").append(...data.totals.filter(([title]) => title !== "failed" || failed).map(([title, count], place) => {
    const [value, unit] = parts(count);
    return make("div", { class: place ? "card" : "card main" }, make("div", { class: "title" }, title), make("div", { class: "value" }, value, make("small", {}, unit && ` ${unit}`)), make("div", { class: "exact" }, exact(count)));
  }));

  // The columns of a table by name, as functions of a row.
  const columns = (table) => Object.fromEntries(table.columns.map((name, place) => [name, (row) => row[place]]));
  const heaviest = (key) => {
    const get = columns(data.by_family);
    return d3.rollups(data.by_family.rows, (rows) => d3.sum(rows, (row) => number(get[key](row))), get.op).sort((a, b) => b[1] - a[1]).filter(([, size]) => size > 0).map(([op]) => op);
  };
  const options = (select, names, chosen) => select.append(...Object.entries(names).map(([key, name]) => make("option", { value: key, selected: key === chosen }, name)));
  return { columns, heaviest, options };
})();
