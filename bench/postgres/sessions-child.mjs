// Sessions that save at once for some seconds, in a process of its own: see sessions.mjs.
import { once } from "node:events";
import pg from "pg";
import { Savepoint } from "savepoint";
import { input } from "../lib/child.mjs";
import { timed } from "../lib/measure.mjs";
import { messages, seeded } from "../lib/states.mjs";

/** Saves of a session. Then another one takes its place, so that states are as long with one session as with many. */
const LENGTH = 64;
const WARM_UP = 600;

const { url, schema, what, name, sessions, seconds } =
  /** @type {Record<"url" | "schema" | "what" | "name", string> & { sessions: number; seconds: number }} */ (input());
// Made before, because making them would be part of what is measured.
const thread = messages(seeded(1), LENGTH);
let opened = 0;

const { save, close } = what === "insert" ? bare() : await savepoint();
let left = WARM_UP;
await all([], () => left-- > 0);
console.log("ready");
await once(process.stdin, "data");
/** @type {number[]} */
const times = [];
const cpu = process.cpuUsage();
const start = performance.now();
const until = start + seconds * 1000;
await all(times, () => performance.now() < until);
const spent = performance.now() - start;
const { user, system } = process.cpuUsage(cpu);
await close();
console.log(JSON.stringify({ rate: (times.length / spent) * 1000, times, busy: (user + system) / 1000 / spent }));

/** @param {number[]} gathered @param {() => boolean} goOn */
async function all(gathered, goOn) {
  await Promise.all(
    Array.from({ length: sessions }, async () => {
      while (goOn()) {
        const append = save();
        for (let step = 0; step < LENGTH && goOn(); step++) gathered.push(await timed(() => append(step)));
      }
    }),
  );
}

async function savepoint() {
  const sp = await Savepoint.open(url);
  return {
    save: () => {
      const session = sp.session(`${name}-${opened++}`);
      return (/** @type {number} */ step) =>
        step === 0 ? session.save({ messages: [thread[0]] }) : session.append("/messages", [thread[step]]);
    },
    close: () => sp.close(),
  };
}

function bare() {
  const pool = new pg.Pool({ connectionString: url, max: sessions });
  const text = `INSERT INTO ${schema}.effect (body) VALUES ($1)`;
  const bodies = thread.map((each) => Buffer.from(JSON.stringify(each)));
  return {
    save: () => (/** @type {number} */ step) => pool.query(text, [bodies[step]]),
    close: () => pool.end(),
  };
}
