"use strict";
// The page begins with the files that it was started with.
flopwise.service.ready.then(flopwise.files.begin);
