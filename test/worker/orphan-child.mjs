// A process that starts sessions and completes none of them: plain JavaScript, and the build, because that is what Node runs.
//
// Arguments: the URL of the store, the length of its lease, the sessions. It prints "begun" when all have begun.

/** @type {typeof import("../../src/index.js")} */
const { defineAgent, Savepoint } = await import(new URL("../../dist/index.js", import.meta.url).href);
const [url = "", lease, ...sessions] = process.argv.slice(2);

let begun = 0;
const hanging = defineAgent({
  name: "ours",
  initial: () => ({}),
  async step(run) {
    await run.effect("work", () => {
      if (++begun === sessions.length) console.log("begun");
      return new Promise(() => {});
    });
  },
});

const sp = await Savepoint.open(url, { durability: "process", lease: /** @type {`${number}s`} */ (lease) });
await Promise.all(sessions.map((session) => sp.start(hanging, { session, input: {} })));
// Nothing else keeps the process running: its sessions wait for nothing that happens.
setInterval(() => {}, 60_000);
