"use strict";
// Charts as files: each panel with one has buttons that save it as it stands, in the colours that it has.
(() => {
  const { make, save } = flopwise;
  const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "paint-order", "display", "shape-rendering"];
  function standing(svg) {
    const { width, height } = svg.getBoundingClientRect();
    const copy = svg.cloneNode(true), [ours, theirs] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
    ours.forEach((element, at) => {
      const style = getComputedStyle(element);
      theirs[at].setAttribute("style", STYLES.map((key) => `${key}:${style.getPropertyValue(key)}`).join(";"));
    });
    copy.querySelectorAll(".said").forEach((text) => text.remove());
    const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [key, value] of Object.entries({ width: "100%", height: "100%", style: `fill:${getComputedStyle(svg.closest(".graph-view, .panel")).backgroundColor}` })) ground.setAttribute(key, value);
    copy.prepend(ground);
    for (const [key, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width, height })) copy.setAttribute(key, value);
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  }
  async function painted({ text, width, height }) {
    const image = new Image(), SCALE = 2;
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = make("canvas", { width: width * SCALE, height: height * SCALE });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }
  for (const panel of document.querySelectorAll("section.panel[id]")) {
    const charts = () => [...panel.querySelectorAll(".chart > svg, .plot > svg, .graph-view > svg")];
    if (!charts().length) continue;
    const title = panel.querySelector("h2").textContent;
    const button = (ending, type, written) => make("button", {
      type: "button", class: "small", "aria-label": `Save ${title} as ${ending.toUpperCase()}`,
      onclick: () => charts().forEach(async (svg, at) => save(`${panel.id}${at ? `-${at + 1}` : ""}.${ending}`, type, await written(standing(svg)))),
    }, ending.toUpperCase());
    panel.querySelector("header").append(make("span", { class: "saves" }, button("svg", "image/svg+xml", ({ text }) => text), button("png", "image/png", painted)));
  }
})();
