"use strict";
// Light or dark.
(() => {
  const button = document.getElementById("theme");
  // As the system says, until somebody chooses.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const icons = {
    light: "M12 4V2m0 20v-2m8-8h2M2 12h2m13.7-5.7 1.4-1.4M4.9 19.1l1.4-1.4m11.4 0 1.4 1.4M4.9 4.9l1.4 1.4M16 12a4 4 0 1 1-8 0 4 4 0 0 1 8 0Z",
    dark: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5Z",
  };
  const remember = (theme) => { try { localStorage.setItem("flopwise-theme", theme); } catch { /* a page without storage */ } };
  const remembered = () => { try { return localStorage.getItem("flopwise-theme"); } catch { return null; } };
  const theme = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  function paint() {
    const now = theme();
    const icon = d3.create("svg").attr("viewBox", "0 0 24 24").attr("fill", "none").attr("stroke", "currentColor").attr("stroke-width", 2).attr("stroke-linecap", "round").attr("aria-hidden", "true");
    icon.append("path").attr("d", icons[now]);
    button.replaceChildren(icon.node());
    button.setAttribute("aria-label", `Colour theme: ${now}; change to ${now === "dark" ? "light" : "dark"}`);
  }
  const before = remembered();
  if (before === "light" || before === "dark") root.dataset.theme = before;
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    remember(root.dataset.theme);
    paint();
  });
  dark.addEventListener("change", paint);
  paint();
})();
