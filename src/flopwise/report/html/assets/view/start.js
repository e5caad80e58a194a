"use strict";
// The page begins with the files that it was started with, as soon as somebody can answer.
(() => {
  const { data, service, files, link } = flopwise;
  const state = document.getElementById("drop-state");
  document.getElementById("more").open = !matchMedia("(max-width: 560px)").matches;
  document.getElementById("drop-promise").textContent = data.promise;
  service.ready.then(() => {
    state.hidden = !link.model;
    state.textContent = "The address of this page is about a model: drop it to see it as it was.";
    return files.begin();
  }, (error) => { state.textContent = `flopwise cannot be loaded: ${error.message}`; });
})();
