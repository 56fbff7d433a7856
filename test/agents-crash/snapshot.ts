/** Everything visible in a store, as one string: two stores with the same string are the same to their users. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { type DamageEvent, Savepoint } from "../../src/index.js";
import { found, NOW, WORDS } from "./operations.mjs";

/** Opens the store that a process left behind; damage, and any failure in the background, fails the test. */
export async function withStore<T>(path: string, work: (sp: Savepoint) => Promise<T>): Promise<T> {
  const troubles: unknown[] = [];
  const on = {
    damage: (event: DamageEvent) => void troubles.push(event),
    backgroundFailure: (event: unknown) => void troubles.push(event),
  };
  await using sp = await Savepoint.open(`sqlite:${path}`, { durability: "process", now: () => NOW, on });
  const result = await work(sp);
  assert.deepEqual(troubles, []);
  return result;
}

export async function takeSnapshot(sp: Savepoint): Promise<string> {
  const infos = await sp.checkpoints.list().all();
  const names = new Map(infos.map(({ id, agent, sessionId, seq }) => [id, `${sessionId ?? `agent ${agent}`}#${seq}`]));
  const agents = await Promise.all((await sp.agents.list().all()).map(({ id }) => sp.agents.load(id)));
  const conversations = [];
  for (const info of await sp.conversations.list().all()) {
    const { entries, ...conversation } = (await sp.conversations.load(info.id)) ?? assert.fail(info.id);
    const { messages, first, holes, ...rest } = conversation;
    assert.deepEqual({ first, holes, ...rest }, { first: 0, holes: [], ...info });
    conversations.push({
      ...rest,
      messages,
      entries: entries.map(({ role, text, timestamp }) => [role, text, timestamp]),
    });
  }
  const checkpoints: object[] = [];
  for (const info of infos) checkpoints.push(await snapshotCheckpoint(sp, info.id));
  const sessions = [];
  for (const { id, agent } of await sp.sessions.list().all()) {
    const branches = [];
    for (const { name, head } of await sp.session(id).branches().all()) {
      const latest = await sp.session(id, { branch: name }).latest();
      branches.push([name, head?.id, latest?.id, latest?.state, latest?.skipped]);
    }
    sessions.push([id, agent, branches]);
  }
  const counts = [];
  for (const agent of [undefined, "support", "sales", "fresh"]) {
    const { bytes, ...stats } = await sp.stats(agent === undefined ? {} : { agent });
    assert.ok(bytes >= 0);
    counts.push(stats);
  }
  assert.equal(counts[0]?.checkpoints, infos.length, "stats().checkpoints");
  assert.equal(counts[0]?.conversations, conversations.length, "stats().conversations");
  checkpoints.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  const text = JSON.stringify({ agents, conversations, checkpoints, sessions, counts }, toPlain, 1);
  // Ids are random: the position of a checkpoint identifies it as well.
  return text.replaceAll(
    /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g,
    (id) => names.get(id) ?? "?",
  );
}

/** Every word is found where it occurs, and nowhere else. */
export async function checkSearch(sp: Savepoint): Promise<void> {
  const texts: [where: string, text: string][] = [];
  for (const { id, title } of await sp.conversations.list().all()) {
    const { messages = [] } = (await sp.conversations.load(id)) ?? {};
    texts.push([`conversation ${id}`, JSON.stringify([title, messages.map(({ content }) => content)])]);
  }
  for (const { id } of await sp.sessions.list().all()) {
    for (const { name } of await sp.session(id).branches().all()) {
      const latest = await sp.session(id, { branch: name }).latest();
      texts.push([`session ${id} ${name}`, JSON.stringify(latest?.state)]);
    }
  }
  // One hit per session, whatever the number of its branches.
  const whole = (where: string): string => where.split(" ").slice(0, 2).join(" ");
  for (const word of WORDS) {
    const expected = new Set(texts.filter(([, text]) => text.includes(word)).map(([where]) => whole(where)));
    const hits = await found(sp, word);
    assert.deepEqual(hits.map(whole), [...expected].sort(), `What is found of ${word}`);
  }
}

async function snapshotCheckpoint(sp: Savepoint, id: string): Promise<object> {
  const loaded = (await sp.checkpoints.load(id)) ?? assert.fail(`There is no checkpoint ${id}`);
  // The length of a text that refers to messages depends on the numbers in it.
  const { stateBytes: _, storedBytes: __, ...checkpoint } = loaded;
  const line = `${checkpoint.sessionId ?? `agent ${checkpoint.agent}`}#${String(checkpoint.seq).padStart(4, "0")}`;
  if (!("conversations" in checkpoint)) return { line, ...checkpoint };
  const messages = [];
  for (const conversation of checkpoint.conversations) {
    const then = await sp.conversations.load(conversation.id, { at: id });
    messages.push([conversation.id, then?.messages]);
  }
  return { line, ...checkpoint, messages };
}

function toPlain(_: string, value: unknown): unknown {
  return value instanceof Uint8Array
    ? `${value.length} bytes ${createHash("sha1").update(value).digest("hex")}`
    : value;
}
