"use strict";
// Of one model in several conventions: why each differs from the first, the largest cause first.
(() => {
  const { data, make, exact, human, noun, signed, way } = flopwise;
  const section = document.getElementById("causes");
  section.hidden = !data.causes.length;
  const converted = data.apart.some(Boolean) ? "; 1 MAC = 2 FLOP" : "";
  document.getElementById("causes-sub").textContent = `they add up to the difference${converted}`;
  const cells = (more, unit) => {
    if (more === null) return [make("td", { class: "num" }, "?")];
    const size = typeof more === "string" ? BigInt(more) : BigInt(more ?? 0);
    return [
      make("td", { class: `num ${way(size)}`, title: human(size < 0n ? -size : size, unit) }, signed(size)),
    ];
  };
  data.causes.forEach(({ conventions, unit, totals, difference, causes }) => {
    const [first, other] = conventions;
    const head = make("tr", {},
      make("th", { scope: "col" }, "cause"), make("th", { scope: "col", class: "num" }, `${other} − ${first}, ${unit}`));
    const lines = causes.map((cause) => make("tr", { "data-cause": cause.layers },
      make("th", { scope: "row", class: "cause" }, make("b", {}, cause.layers), `: ${cause.reason}, `, make("small", {}, noun(cause.number, "layer"))),
      ...cells(cause.difference, unit)));
    const whole = make("tr", { "data-cause": "" },
      make("th", { scope: "row" }, causes.length ? `Total: ${first} ${exact(totals[0])}, ${other} ${exact(totals[1])}` : `${first} and ${other} count the same in every layer`),
      ...cells(difference, unit));
    document.getElementById("causes-tables").append(
      make("div", { class: "scroll" }, make("table", { class: "figures causes" }, make("thead", {}, head), make("tbody", {}, ...lines), make("tfoot", {}, whole))));
  });
})();
