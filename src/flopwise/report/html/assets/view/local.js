"use strict";
// Who answers: the server that has sent the page. Files go to it in pieces.
flopwise.service = (() => {
  const PIECE = 8 << 20;
  async function sent(path, method, body) {
    const reply = await fetch(path, { method, body, cache: "no-store" }).catch(() => { throw new Error("flopwise view has ended; start it again"); });
    if (!reply.ok) throw new Error(await reply.text());
    return reply;
  }
  return {
    ready: Promise.resolve(),
    async add(drop, files, progress) {
      for (const { file, name } of files) {
        const path = `files/${drop}/${encodeURIComponent(name)}`;
        for (let at = 0; at === 0 || at < file.size; at += PIECE) {
          progress(`${name}: ${Math.round((100 * at) / (file.size || 1))} %`);
          await sent(`${path}?at=${at}`, "PUT", file.slice(at, at + PIECE));
        }
      }
    },
    ask: async (question) => (await sent("ask", "POST", JSON.stringify(question))).json(),
    stop: () => sent("stop", "POST", ""),
  };
})();
