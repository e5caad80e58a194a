"use strict";
// Keeps the files of the page that needs no installation for when there is no network; packaging/app.py fills in which.
const files = FILES, version = VERSION;
addEventListener("install", (event) => event.waitUntil(caches.open(version).then((cache) => cache.addAll(files))));
addEventListener("activate", (event) => event.waitUntil(caches.keys().then((names) => Promise.all(names.filter((name) => name !== version).map((name) => caches.delete(name))))));
addEventListener("fetch", (event) => event.respondWith(caches.match(event.request, { ignoreSearch: true }).then((kept) => kept || fetch(event.request))));
