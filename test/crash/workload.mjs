// What the child processes of the crash tests do. Each acknowledges what it saved on standard output, synchronously, so
// that a line means: the save had resolved before the process died.
import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import { isSavepointError, Savepoint } from "../../dist/index.js";

/** @typedef {{ messages: { id: number; text: string }[]; files: Record<string, string>; note: string; n: number }} State */

/** @param {unknown} value */
export function hashOf(value) {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 16);
}

/** @param {object} line */
export function acknowledge(line) {
  writeSync(1, `${JSON.stringify(line)}\n`);
}

/** @param {number} seed @returns {(below: number) => number} */
export function seeded(seed) {
  let state = seed | 1;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** @returns {State} */
function newState() {
  return { messages: [], files: {}, note: "", n: 0 };
}

/** Changes a state as agents do: mostly it grows, sometimes it is edited, trimmed or rewritten. @param {State} state @param {(below: number) => number} random */
export function change(state, random) {
  state.n++;
  const kind = random(10);
  if (kind < 6) state.messages.push({ id: state.n, text: `message ${state.n} `.repeat(1 + random(30)) });
  else if (kind === 6 && state.messages.length > 3) state.messages.splice(random(state.messages.length), 1);
  else if (kind === 7) state.files[`file-${random(30)}`] = `content ${state.n} `.repeat(random(100));
  else if (kind === 8) state.note += `note ${state.n} `.repeat(random(40));
  else if (state.messages.length > 0) state.messages.splice(0, random(4));
  if (state.messages.length > 120) state.messages.splice(0, 60);
  if (state.note.length > 20_000) state.note = "";
}

/** Saves, forks and rewinds on a few sessions as fast as it goes, until it is killed. @param {string} url @param {number} seed @param {string | undefined} dieAt */
export async function saveForever(url, seed, dieAt) {
  const random = seeded(seed);
  let countdown = dieAt === undefined ? -1 : Number(dieAt.split("@")[1]);
  const probe = (/** @type {string} */ point) => {
    if (dieAt?.startsWith(`${point}@`) && countdown-- === 0) process.kill(process.pid, "SIGKILL");
  };
  const sp = await Savepoint.open(url, { probe });
  for (let round = 0; ; round++) {
    const session = sp.session(`session-${random(4)}`, { agent: "crash" });
    const latest = await session.latest();
    const state = /** @type {State} */ (latest?.state ?? newState());
    for (let step = 0; step < 8; step++) {
      change(state, random);
      const info = await session.save(state);
      acknowledge({ session: session.id, id: info.id, seq: info.seq, hash: hashOf(state) });
    }
    const kind = random(8);
    const head = await session.head();
    if (kind === 0 && head) {
      const fork = await session.fork(head.id, { state });
      const forked = await fork.head();
      acknowledge({ session: session.id, id: forked?.id, seq: forked?.seq, hash: hashOf(state) });
    } else if (kind === 1 && latest) {
      const back = await session.rewind(latest.id);
      acknowledge({
        session: session.id,
        id: back.id,
        seq: back.seq,
        hash: hashOf((await session.load(latest.id))?.state),
      });
    }
  }
}

/** Saves `count` times, on sessions of its own in turn. @param {string} url @param {string} name @param {number} count */
export async function saveOwn(url, name, count) {
  const sp = await Savepoint.open(url, { durability: "process" });
  const sessions = Array.from({ length: 5 }, (_, index) => sp.session(`${name}-${index}`, { agent: name }));
  const states = sessions.map(newState);
  const random = seeded(name.length + count);
  for (let n = 0; n < count; n++) {
    const state = /** @type {State} */ (states[n % 5]);
    change(state, random);
    await sessions[n % 5]?.save(state, { step: Math.floor(n / 5), metadata: { hash: hashOf(state) } });
  }
  await sp.close();
  acknowledge({ done: name });
}

/** Reads other processes' sessions until told to stop: each state must be the one its checkpoint was saved with. @param {string} url */
export async function readAll(url) {
  const sp = await Savepoint.open(url);
  let stop = false;
  process.stdin.on("data", () => (stop = true));
  let reads = 0;
  /** @type {Map<string, number>} */
  const newest = new Map();
  while (!stop) {
    for await (const { id } of sp.sessions.list()) {
      const latest = await sp.session(id).latest();
      if (!latest) continue;
      if (hashOf(latest.state) !== latest.metadata["hash"])
        throw new Error(`${id}#${latest.seq} is not what was saved`);
      if (latest.seq < (newest.get(id) ?? 0))
        throw new Error(`${id} went back from #${newest.get(id)} to #${latest.seq}`);
      newest.set(id, latest.seq);
      const steps = (await sp.session(id).history({ limit: 20 }).all()).map((info) => info.step);
      for (const [index, step] of steps.entries()) {
        if (step !== (steps[0] ?? 0) - index) throw new Error(`${id} is out of order: ${steps.join()}`);
      }
      reads++;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  await sp.close();
  acknowledge({ reads });
}

/** Adds its name to one list that another process adds to as well. @param {string} url @param {string} name @param {number} count */
export async function contend(url, name, count) {
  const sp = await Savepoint.open(url, { durability: "process" });
  const session = sp.session("shared");
  let conflicts = 0;
  for (let n = 0; n < count;) {
    const latest = await session.latest();
    const state = /** @type {{ entries: string[] }} */ (latest?.state ?? { entries: [] });
    state.entries.push(`${name} ${n}`);
    try {
      await session.save(state);
      n++;
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT")) throw error;
      conflicts++;
    }
  }
  await sp.close();
  acknowledge({ conflicts });
}

/** Everything that makes garbage, and collection, at once with another process. @param {string} url @param {string} name @param {number} operations @param {number} seed */
export async function makeGarbage(url, name, operations, seed) {
  const random = seeded(seed);
  const sp = await Savepoint.open(url, { durability: "process", cacheBytes: random(2) ? 1 : 1e8 });
  const ids = ["shared-0", "shared-1", `${name}-0`, `${name}-1`];
  for (let n = 0; n < operations; n++) {
    const session = sp.session(/** @type {string} */ (ids[random(ids.length)]));
    try {
      await garbageStep(sp, session, random);
    } catch (error) {
      // The other process was first, or has deleted the session or the checkpoint under us.
      if (
        !["CONFLICT", "SESSION_DELETED", "CHECKPOINT_NOT_FOUND"].some((code) =>
          isSavepointError(error, /** @type {any} */ (code)),
        )
      )
        throw error;
    }
  }
  await sp.close();
  acknowledge({ done: name });
}

/** @param {Savepoint} sp @param {ReturnType<Savepoint["session"]>} session @param {(below: number) => number} random */
async function garbageStep(sp, session, random) {
  const kind = random(40);
  if (kind === 0) await sp.sessions.delete(session.id);
  else if (kind === 1) await session.clear();
  else if (kind === 2) await sp.compact();
  else {
    const latest = await session.latest();
    const state = /** @type {State & { blob?: Uint8Array }} */ (latest?.state ?? newState());
    change(state, random);
    const text = { ...state, blob: undefined };
    if (random(6) === 0) state.blob = new Uint8Array(2000).fill(random(5));
    const options = { metadata: { hash: hashOf({ ...text, blob: state.blob?.[0] ?? null }) } };
    if (kind < 6 && latest) await session.fork(latest.id, { state, ...options });
    else if (kind < 9 && latest) await session.rewind(latest.id);
    else await session.save(state, options);
  }
}

/** The hash that `makeGarbage` saves with a state. @param {any} state */
export function garbageHash(state) {
  return hashOf({ ...state, blob: state.blob?.[0] ?? null });
}
