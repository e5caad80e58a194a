"use strict";
// Where the work is, by module: as areas or as an icicle of levels, from the same module on.
(() => {
  const { make, measures, pathTo, groups } = flopwise;
  const box = document.getElementById("where-view");
  const crumbs = document.getElementById("crumbs");
  const buttons = [...document.querySelectorAll("#where [data-view]")];
  let root = flopwise.top, view = "areas";
  // As high as the bars beside it.
  const high = () => Math.max(260, Math.min(440, d3.sum(["kind-bars", "operator-bars"], (id) => document.getElementById(id).offsetHeight) + 10));

  function go(group, focus = false) {
    root = group;
    redraw();
    if (focus) views.flame.focus?.();
  }
  const views = { areas: flopwise.treemap(box, () => root, go), flame: flopwise.flame(box, () => root, go) };

  function drawCrumbs() {
    crumbs.replaceChildren(...pathTo(root).flatMap((group, index, all) => {
      const here = index === all.length - 1;
      const button = make("button", { type: "button", title: group.name, "aria-current": here ? "true" : null, onclick: () => go(group.index) }, flopwise.cut(group.name, 34));
      return index ? [make("span", { "aria-hidden": "true" }, "›"), button] : [button];
    }));
  }
  function draw(width) {
    drawCrumbs();
    document.getElementById("where-sub").textContent = `${view === "areas" ? "area" : "width"}: ${measures[flopwise.state.measure].title()}`;
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.view === view)));
    box.dataset.view = view;
    views[view](width, high());
  }
  function show(name) { view = name; redraw(); }
  buttons.forEach((button) => button.addEventListener("click", () => show(button.dataset.view)));
  flopwise.on("fold", () => { if (flopwise.bare(groups[root]) || !pathTo(root).every((group) => flopwise.groupSums()[group.index].value)) root = flopwise.top; });
  const redraw = flopwise.sized(box, draw);
  flopwise.on("counts", redraw);
  flopwise.on("choose", redraw);
})();
