"use strict";
// Modules by time and, beside it, by FLOPs: both are in the same module.
(() => {
  const { data, make, pathTo, groups, time, human } = flopwise;
  const HIGH = 300;
  const crumbs = document.getElementById("crumbs");
  let root = flopwise.top;
  function go(group, focus = false) {
    const from = sides.find(({ box }) => box.contains(document.activeElement));
    root = group;
    sides.forEach(({ redraw }) => redraw());
    if (focus) (from || sides[0]).draw.focus?.();
  }
  function drawCrumbs() {
    crumbs.replaceChildren(...pathTo(root).flatMap((group, index, all) => {
      const button = make("button", { type: "button", title: group.name, "aria-current": index === all.length - 1 ? "true" : null, onclick: () => go(group.index) }, flopwise.cut(group.name, 34));
      return index ? [make("span", { "aria-hidden": "true" }, "›"), button] : [button];
    }));
    const [times, flops] = ["time", "flops"].map((measure) => flopwise.groupSums(measure)[root]);
    document.getElementById("flame-time-title").textContent = `By time: ${time(times.value)} on layers`;
    document.getElementById("flame-flops-title").textContent = `By FLOPs: ${flops.unknown ? "≥ " : ""}${human(flops.value, "FLOP")}`;
  }
  const sides = ["time", "flops"].map((measure) => {
    const box = document.getElementById(`flame-${measure}`);
    return { box, draw: flopwise.flame(box, () => root, go, () => measure) };
  });
  sides.forEach((side) => { side.redraw = flopwise.sized(side.box, (width) => { drawCrumbs(); side.draw(width, HIGH); }); });
  flopwise.on("choose", () => sides.forEach(({ redraw }) => redraw()));
  if (groups.length < 2) document.querySelector("#where .sub").textContent = "The layers in their order; the model names no modules.";
})();
