// A worker that is killed, frozen and woken, and whose clock is wrong, and not always by the same.
//
//   node worker.mjs <url> <folder> <name> <seed> <sessions> <lease>
import { isSavepointError, Savepoint } from "savepoint";
import { createWorkhorse } from "./agent.mjs";
import { createRandom } from "./random.mjs";
import { World } from "./world.mjs";

const [url = "", folder = "", name = "", seed = "0", sessions = "0", lease = "0"] = process.argv.slice(2);
const random = createRandom(Number(seed));
skewClock();

const world = new World(folder, name);
const workhorse = createWorkhorse(world, random);
const sp = await open();
const worker = sp.worker([workhorse], { concurrency: 20, lease: Number(lease), name, maxCrashes: 20, grace: 5000 });
worker.on("started", ({ sessionId: session }) => world.note({ session, what: "started" }));
worker.on("step", ({ sessionId: session, step }) => world.note({ session, what: "step", step }));
worker.on("checkpoint", ({ sessionId: session, checkpoint }) => {
  world.note({ session, what: "checkpoint", step: checkpoint.step, seq: checkpoint.seq });
});
worker.on("status", ({ sessionId: session, status }) => world.note({ session, what: "status", status }));
worker.on("leaseLost", ({ sessionId: session }) => world.note({ session, what: "leaseLost" }));
worker.on("quarantined", ({ sessionId: session }) => world.note({ session, what: "quarantined" }));
worker.on("failure", ({ message, error }) => console.error(message, String(error)));
await worker.start();
// All of them leave the same sessions, at the same time.
for (let n = 0; n < Number(sessions); n++) {
  const session = `session-${n}`;
  try {
    const queued = await sp.enqueue(workhorse, { session, input: { n }, priority: n % 3 });
    if (queued) world.note({ session, what: "queued" });
  } catch (error) {
    if (isSavepointError(error, "CLOSED")) break;
    // Others do it as well.
    console.error(`${session} could not be left:`, String(error));
  }
}

/** The database may be away: opening does not wait for it. */
async function open() {
  for (;;) {
    try {
      return await Savepoint.open(url, {
        lease: Number(lease),
        on: { backgroundFailure: ({ message, error }) => console.error(message, String(error)) },
      });
    } catch (error) {
      console.error("opening failed:", String(error));
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

/** Whatever asks this process for the time gets another one, up to a day off, that jumps forth and back. */
function skewClock() {
  const RealDate = Date;
  const day = 86_400_000;
  let offset = (random() - 0.5) * 2 * day;
  setInterval(() => (offset = (random() - 0.5) * 2 * day), 700).unref();
  globalThis.Date = /** @type {DateConstructor} */ (
    class extends RealDate {
      constructor(/** @type {unknown[]} */ ...args) {
        if (args.length === 0) super(RealDate.now() + offset);
        else super(.../** @type {[number]} */ (args));
      }
      /** @override */
      static now() {
        return Math.round(RealDate.now() + offset);
      }
    }
  );
}
