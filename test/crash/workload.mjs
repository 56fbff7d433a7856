// What the child processes of the crash tests do. Each acknowledges what it saved on standard output, synchronously, so
// that a line means: the save had resolved before the process died.
import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import { isSavepointError, Savepoint } from "savepoint";
import { encryptionOf } from "../support/crash-keys.mjs";
import { withTestHooks } from "../support/test-hooks.mjs";

/** @typedef {{ messages: { id: number; text: string }[]; files: Record<string, string>; note: string; n: number }} State */

/** A hash of a whole state. @param {unknown} value */
export function hashOf(value) {
  const text = JSON.stringify(value, (_, part) =>
    part instanceof Uint8Array ? Buffer.from(part).toString("hex") : part,
  );
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
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

/** Saves, forks and rewinds on several sessions at once as fast as it goes, until it is killed. @param {string} url @param {number} seed @param {string | undefined} dieAt */
export async function saveForever(url, seed, dieAt) {
  const random = seeded(seed);
  let countdown = dieAt === undefined ? -1 : Number(dieAt.split("@")[1]);
  const probe = (/** @type {string} */ point) => {
    if (dieAt?.startsWith(`${point}@`) && countdown-- === 0) process.kill(process.pid, "SIGKILL");
  };
  const sp = await Savepoint.open(url, withTestHooks({ probe }, encryptionOf()));
  sp.on("damage", (event) => {
    throw new Error(`Damage: ${event.reason}`);
  });
  await Promise.all([0, 1, 2, 3].map((index) => saveSession(sp, `session-${index}`, random)));
}

/** @param {Savepoint} sp @param {string} id @param {(below: number) => number} random */
async function saveSession(sp, id, random) {
  const session = /** @type {import("savepoint").Session<State>} */ (sp.session(id, { agent: "crash" }));
  const latest = await session.latest();
  if (latest && hashOf(latest.state) !== latest.metadata["hash"]) throw new Error(`${id} resumes with another state`);
  let state = latest?.state ?? newState();
  /** @type {{ id: string, hash: string }[]} */
  const known = [];
  /** @param {import("savepoint").CheckpointInfo} info @param {string} hash */
  const acknowledged = (info, hash) => {
    acknowledge({ session: id, id: info.id, seq: info.seq, hash });
    known.push({ id: info.id, hash });
  };
  /** @param {import("savepoint").Session<State>} handle @param {State} next */
  const save = async (handle, next) => {
    const hash = hashOf(next);
    acknowledged(await handle.save(next, { metadata: { hash } }), hash);
  };
  for (;;) {
    const kind = random(40);
    const earlier = known[random(known.length)];
    if (kind === 0 && earlier) {
      acknowledged(await session.rewind(earlier.id), earlier.hash);
      state = (await session.latest())?.state ?? newState();
    } else if (kind === 1 && earlier) {
      const fork = await session.fork(earlier.id);
      const other = (await fork.latest())?.state ?? newState();
      for (let count = random(3); count >= 0; count--) {
        change(other, random);
        await save(fork, other);
      }
    } else if (kind === 2 && random(4) === 0) await sp.compact();
    else {
      for (let count = random(4); count >= 0; count--) change(state, random);
      await save(session, state);
    }
  }
}

/** Saves `count` times, on five sessions of its own at once. @param {string} url @param {string} name @param {number} count */
export async function saveOwn(url, name, count) {
  const sp = await Savepoint.open(url, { durability: "process" });
  const random = seeded(name.length + count);
  await Promise.all(
    [0, 1, 2, 3, 4].map(async (index) => {
      const session = sp.session(`${name}-${index}`, { agent: name });
      const state = newState();
      for (let step = 0; step < count / 5; step++) {
        change(state, random);
        await session.save(state, { step, metadata: { hash: hashOf(state) } });
      }
    }),
  );
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

/** Adds its name to one list that another process adds to as well: looks, saves, and looks again where it was late. @param {string} url @param {string} name @param {number} count */
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

/** Adds its name to the same list without looking. @param {string} url @param {string} name @param {number} count */
export async function addBlindly(url, name, count) {
  const sp = await Savepoint.open(url, { durability: "process" });
  for (let n = 0; n < count; n++) await sp.session("shared").append("/entries", [`${name} ${n}`]);
  await sp.close();
}

/** Waits for input, then opens a store that may not exist yet and saves in it. @param {string} url @param {string} name */
export async function openAndSave(url, name) {
  acknowledge({ ready: true });
  await new Promise((resolve) => process.stdin.once("data", resolve));
  const sp = await Savepoint.open(url);
  await sp.session(name).save({ name });
  await sp.close();
  process.stdin.destroy();
}

/** @typedef {State & { blob?: Uint8Array }} BlobState */

/**
 * Everything that makes garbage, and collection, at once with another process. What it has saved in sessions that only
 * it works on, and not removed since, it lists in the end; of the others it says what they were.
 *
 * @param {string} url @param {string} name @param {number} operations @param {number} seed
 */
export async function makeGarbage(url, name, operations, seed) {
  const random = seeded(seed);
  const sp = await Savepoint.open(url, { durability: "process", cacheBytes: random(2) ? 1 : 1e8 });
  sp.on("damage", (event) => {
    throw new Error(`Damage: ${event.reason}`);
  });
  const ids = ["shared-0", "shared-1", `${name}-0`, `${name}-1`];
  /** What it believes to be there, by session. @type {Map<string, Map<string, string>>} */
  const believed = new Map(ids.map((id) => [id, new Map()]));
  for (let n = 0; n < operations; n++) {
    const id = /** @type {string} */ (ids[random(ids.length)]);
    try {
      await garbageStep(sp, id, random, /** @type {Map<string, string>} */ (believed.get(id)));
    } catch (error) {
      // The other process was first, or has deleted the session or the checkpoint under us.
      const shared = id.startsWith("shared");
      const code = isSavepointError(error) ? error.code : "";
      if (!shared || !["CONFLICT", "SESSION_DELETED", "CHECKPOINT_NOT_FOUND"].includes(code)) throw error;
    }
  }
  await sp.close();
  for (const [session, checkpoints] of believed) acknowledge({ session, checkpoints: [...checkpoints] });
}

/** @param {Savepoint} sp @param {string} id @param {(below: number) => number} random @param {Map<string, string>} believed */
async function garbageStep(sp, id, random, believed) {
  const session = /** @type {import("savepoint").Session<BlobState>} */ (sp.session(id));
  const kind = random(80);
  if (kind === 0) {
    await sp.sessions.delete(id);
    if (!id.startsWith("shared")) believed.clear();
  } else if (kind === 1) {
    await session.clear();
    if (!id.startsWith("shared")) believed.clear();
  } else if (kind < 5) await sp.compact();
  else {
    const latest = await session.latest();
    const state = /** @type {BlobState} */ (latest?.state ?? newState());
    change(state, random);
    if (random(6) === 0) state.blob = new Uint8Array(2000).fill(random(5));
    const metadata = { hash: hashOf(state) };
    const history = await session.history({ allBranches: true, limit: 30 }).all();
    const earlier = history[random(history.length)];
    if (kind < 12 && earlier) {
      const fork = await session.fork(earlier.id, { state, metadata });
      const head = await fork.head();
      if (head) believed.set(head.id, metadata.hash);
    } else if (kind < 18 && earlier) {
      const back = await session.rewind(earlier.id);
      believed.set(back.id, String(earlier.metadata["hash"]));
    } else if (kind < 30 && earlier) {
      const found = await session.load(earlier.id);
      if (found && hashOf(found.state) !== earlier.metadata["hash"])
        throw new Error(`${id}#${found.seq} is not what was saved`);
    } else believed.set((await session.save(state, { metadata })).id, metadata.hash);
  }
}
