"use strict";
// The address of the page remembers the tab, its options, what is chosen in its report, and which model that was.
flopwise.link = (() => {
  const given = new URLSearchParams(location.hash.startsWith("#?") ? location.hash.slice(2) : "");
  const OPTION = "o.";
  let page = given.get("page") || "", model = given.get("model") || "";
  return {
    tab: given.get("tab") || "",
    options: Object.fromEntries([...given].flatMap(([key, value]) => (key.startsWith(OPTION) ? [[key.slice(OPTION.length), value]] : []))),
    model,
    // What was chosen in the report, once: other reports begin anew.
    page() { const chosen = page; page = ""; return chosen; },
    write(tab, options, chosen, hash) {
      const pairs = [["tab", tab], ["model", hash], ...Object.entries(options).map(([key, value]) => [OPTION + key, value]), ["page", chosen]];
      history.replaceState(null, "", `#?${new URLSearchParams(pairs.filter(([, value]) => value))}`);
    },
    // The first digits of a hash of a file's size, beginning and end: large files are not read whole.
    async hash(file) {
      if (!crypto.subtle) return "";
      const END = 1 << 20;
      const parts = await new Blob([`${file.size} `, file.slice(0, END), file.slice(-END)]).arrayBuffer();
      return [...new Uint8Array(await crypto.subtle.digest("SHA-256", parts))].slice(0, 8).map((byte) => byte.toString(16).padStart(2, "0")).join("");
    },
  };
})();
