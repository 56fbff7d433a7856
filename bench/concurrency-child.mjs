// Sessions that save at once, in a process of its own: see concurrency.mjs.
import { join } from "node:path";
import { Savepoint } from "savepoint";
import { input } from "./lib/child.mjs";
import { median, quantile, timed, withLateness } from "./lib/measure.mjs";
import { messages, seeded } from "./lib/states.mjs";

/** Saves of a session. Then another one takes its place, so that states are as long with one session as with many. */
const LENGTH = 32;
const WARM_UP = 200;
/** Saves before that, which do not wait for the disk: the compiler takes longer than a slow disk lets it. */
const COMPILED = 4000;

const { folder, sessions, saves } = /** @type {{ folder: string; sessions: number; saves: number }} */ (input());
// Made before, because making them would be part of what is measured.
const thread = messages(seeded(1), LENGTH);
let opened = 0;

const other = await Savepoint.open(`sqlite:${join(folder, "other.db")}`, { durability: "process" });
await saveAll(other, COMPILED, []);
await other.close();

const sp = await Savepoint.open(`sqlite:${join(folder, "bench.db")}`, { durability: "power" });
await inParallel(() => converse(sp, Math.ceil(WARM_UP / sessions), []));
/** @type {number[]} */
const times = [];
const start = performance.now();
const { late, latest } = await withLateness(() => saveAll(sp, saves, times));
const rate = times.length / ((performance.now() - start) / 1000);
await sp.close();
console.log(JSON.stringify({ rate, p50: median(times), p99: quantile(times, 0.99), late, latest }));

/** At least so many saves, and every session whole. @param {Savepoint} store @param {number} total @param {number[]} gathered */
async function saveAll(store, total, gathered) {
  const rounds = Math.ceil(total / LENGTH / sessions);
  await inParallel(async () => {
    for (let round = 0; round < rounds; round++) await converse(store, LENGTH, gathered);
  });
}

/** @param {() => Promise<void>} work */
async function inParallel(work) {
  await Promise.all(Array.from({ length: sessions }, work));
}

/** A new session, saved after each of its messages. @param {Savepoint} store @param {number} length @param {number[]} gathered */
async function converse(store, length, gathered) {
  const session = store.session(`thread-${opened++}`);
  const state = { messages: /** @type {typeof thread} */ ([]) };
  for (let step = 0; step < length; step++) {
    state.messages.push({ .../** @type {(typeof thread)[0]} */ (thread[step % LENGTH]) });
    gathered.push(await timed(() => session.save(state)));
  }
}
