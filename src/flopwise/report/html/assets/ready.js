"use strict";
// The last script of every page: all of it stands now.
document.documentElement.dataset.ready = "true";
