"use strict";
// Who answers: flopwise itself, on Python in a worker. Files are read there piece by piece, as far as they are asked for.
flopwise.service = (() => {
  // What the worker runs. It is made of a text of this page, so that the policy of the page holds for it, too.
  async function work(base) {
    // The files of an archive without a comment, taken apart while the runtime is on its way.
    async function files(name) {
      const archive = await (await fetch(`${base}${name}.zip`)).arrayBuffer();
      const view = new DataView(archive);
      const inflated = [];
      let place = view.getUint32(archive.byteLength - 6, true);
      for (let left = view.getUint16(archive.byteLength - 12, true); left > 0; left -= 1) {
        const [name, more, comment] = [28, 30, 32].map((field) => view.getUint16(place + field, true));
        const [size, from] = [20, 42].map((field) => view.getUint32(place + field, true));
        const path = new TextDecoder().decode(new Uint8Array(archive, place + 46, name));
        const start = from + 30 + view.getUint16(from + 26, true) + view.getUint16(from + 28, true);
        const packed = new Blob([new Uint8Array(archive, start, size)]);
        const whole = view.getUint16(place + 10, true) ? packed.stream().pipeThrough(new DecompressionStream("deflate-raw")) : packed;
        inflated.push(new Response(whole).arrayBuffer().then((bytes) => [path, new Uint8Array(bytes)]));
        place += 46 + name + more + comment;
      }
      return Promise.all(inflated);
    }
    const own = files("flopwise");
    const { loadPyodide } = await import(`${base}pyodide.mjs`);
    const python = await loadPyodide({ indexURL: base, packages: [], fullStdLib: false });
    const there = new Set();
    async function unpack(name) {
      if (there.has(name)) return;
      python.unpackArchive(await (await fetch(`${base}${name}.zip`)).arrayBuffer(), "zip", { extractDir: "/lib/app" });
      there.add(name);
    }
    for (const [path, bytes] of await own) {
      python.FS.mkdirTree(`/lib/app/${path}`.replace(/\/[^/]*$/, ""));
      python.FS.writeFile(`/lib/app/${path}`, bytes, { canOwn: true });
    }
    python.FS.mkdirTree("/drops");
    const respond = python.runPython("import sys; sys.path.append('/lib/app'); import json; from flopwise.cli.view.answers import respond_in; lambda text: json.dumps(respond_in('/drops', json.loads(text)))");
    const mounted = new Map(); // drop -> its files
    const acts = {
      // A place is mounted anew with all its files, where more come to it.
      add({ drop, files }) {
        const place = `/drops/${drop}`;
        const before = (mounted.get(drop) ?? []).filter(({ name }) => !files.some((file) => file.name === name));
        python.FS.mkdirTree(place);
        if (mounted.has(drop)) python.FS.unmount(place);
        mounted.set(drop, [...before, ...files]);
        python.FS.mount(python.FS.filesystems.WORKERFS, { blobs: mounted.get(drop).map(({ name, file }) => ({ name, data: file })) }, place);
        return null;
      },
      async ask({ question, needs }) {
        for (const name of needs) await unpack(name);
        return JSON.parse(respond(JSON.stringify(question)));
      },
    };
    onmessage = async ({ data: { id, act, about } }) => {
      try { postMessage({ id, answer: await acts[act](about) }); }
      catch (error) { postMessage({ id, fault: String(error.message || error).trim().split("\n").pop() }); }
    };
    postMessage({ id: 0, answer: null });
    // While somebody looks for a file, a model of one Relu loads what the first profile needs.
    python.FS.mkdirTree("/drops/warm");
    python.FS.writeFile("/drops/warm/x.onnx", Uint8Array.from(atob("CAg6MwoMCgF4EgF5IgRSZWx1EgFnWg8KAXgSCgoICAESBAoCCAFiDwoBeRIKCggIARIECgIIAUIECgAQEQ=="), (byte) => byte.charCodeAt(0)));
    respond(JSON.stringify({ tab: "profile", files: [{ drop: "warm", name: "x.onnx" }], options: {}, format: "html" }));
  }

  const added = []; // what a new worker is given again
  let worker, waiting, count = 0;
  function start() {
    const url = URL.createObjectURL(new Blob([`(${work})(${JSON.stringify(new URL(".", location).href)}).catch((error) => postMessage({ id: 0, fault: String(error) }))`], { type: "text/javascript" }));
    worker = new Worker(url, { type: "module" });
    waiting = new Map();
    const begun = new Promise((done, failed) => waiting.set(0, { done, failed }));
    worker.onmessage = ({ data: { id, answer, fault } }) => {
      const { done, failed } = waiting.get(id);
      waiting.delete(id);
      if (fault === undefined) done(answer); else failed(new Error(fault));
    };
    worker.onerror = (event) => waiting.forEach(({ failed }) => failed(new Error(event.message)));
    return begun;
  }
  const call = (act, about) => new Promise((done, failed) => {
    count += 1;
    waiting.set(count, { done, failed });
    worker.postMessage({ id: count, act, about });
  });
  const service = {
    ready: start(),
    async add(drop, files, progress) {
      progress("Python is being loaded …");
      await service.ready;
      added.push({ drop, files });
      await call("add", { drop, files });
    },
    async ask(question) {
      await service.ready;
      return call("ask", { question, needs: flopwise.data.tabs.find((tab) => tab.command === question.tab)?.needs ?? [] });
    },
    async stop() {
      worker.terminate();
      waiting.forEach(({ failed }) => failed(new Error("stopped")));
      service.ready = start();
      await service.ready;
      for (const files of added) await call("add", files);
    },
  };
  // Once loaded, the page works without a network.
  navigator.serviceWorker?.register("offline.js").catch(() => null);
  return service;
})();
