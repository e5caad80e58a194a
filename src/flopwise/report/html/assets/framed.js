"use strict";
// A page in a frame of `flopwise view`: light or dark as that says, and what is dropped here is dropped there.
(() => {
  if (parent === window) return;
  document.getElementById("theme").hidden = true;
  document.querySelector(".foot").hidden = true; // its links would lead out of the frame
  addEventListener("message", ({ source, data }) => { if (source === parent && (data.theme === "light" || data.theme === "dark")) document.documentElement.dataset.theme = data.theme; });
  addEventListener("message", ({ source, data: { state } }) => { if (source === parent && typeof state === "string") flopwise.recall(state); });
  addEventListener("message", ({ source, data: { print: wanted } }) => { if (source === parent && wanted) print(); });
  addEventListener("message", ({ source, data: { section } }) => { if (source === parent && section !== undefined) (document.getElementById(section) || document.documentElement).scrollIntoView(); });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => { event.preventDefault(); parent.postMessage({ dropped: [...event.dataTransfer.files] }, "*"); });
})();
