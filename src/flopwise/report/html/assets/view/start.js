"use strict";
// The page begins with the files that it was started with, as soon as somebody can answer.
(() => {
  const { data, service, files } = flopwise;
  const state = document.getElementById("drop-state");
  document.getElementById("drop-promise").textContent = data.promise;
  service.ready.then(() => { state.hidden = true; return files.begin(); }, (error) => { state.textContent = `flopwise cannot be loaded: ${error.message}`; });
})();
