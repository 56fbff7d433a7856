/** All that the public API returns about a store, as one value; and a store with data of every kind. */
import { type Attachment, message, type Savepoint } from "../../src/index.js";
import { STORES, type StoreKind } from "../model/stores.js";

/** Every kind of store that outlives, or is shared by, several Savepoints. */
export const PLACES = STORES.filter(({ name }) => name !== "sqlite::memory:");

/** Every ordered pair of kinds. */
export const PAIRS: readonly { readonly name: string; readonly from: StoreKind; readonly to: StoreKind }[] =
  PLACES.flatMap((from) => PLACES.map((to) => ({ name: `${from.name} to ${to.name}`, from, to })));

export type Whole = Record<string, unknown>;

const QUERIES = ["order", "needle", "hay", "Titel"];

/** All data of a session, with every state. */
export async function sessionOf(sp: Savepoint, id: string): Promise<Whole> {
  const session = sp.session(id);
  const history = await session.history({ allBranches: true, order: "oldest" }).all();
  const branches = await session.branches().all();
  const states: Whole = {};
  for (const info of history) states[info.id] = await session.load(info.id);
  const lines: Whole = {};
  for (const { name } of branches) {
    const branch = sp.session(id, { branch: name });
    lines[name] = {
      head: await branch.head(),
      latest: await branch.latest(),
      history: (await branch.history().all()).map((info) => info.id),
    };
  }
  const labels: Whole = {};
  for (const { label } of history) {
    if (label !== undefined) labels[label] = (await session.load({ label }))?.id;
  }
  return { info: await sp.sessions.load(id), history, branches, states, lines, labels };
}

/** All data of an agent: its fields, its conversations, and its checkpoints with their conversations. */
export async function agentOf(sp: Savepoint, agent: string): Promise<Whole> {
  const conversations: Whole[] = [];
  for await (const info of sp.conversations.list({ agent })) {
    conversations.push({ info, loaded: await sp.conversations.load(info.id) });
  }
  const checkpoints: Whole[] = [];
  for await (const info of sp.checkpoints.list({ agent, of: "agent" })) {
    const loaded = await sp.checkpoints.load(info.id);
    const past: Whole = {};
    if (loaded && "conversations" in loaded) {
      for (const { id } of loaded.conversations) past[id] = await sp.conversations.load(id, { at: info.id });
    }
    checkpoints.push({ info, loaded, past });
  }
  const { bytes: _, ...stats } = await sp.stats({ agent });
  return { agent: await sp.agents.load(agent), conversations, checkpoints, stats };
}

/** All data of a store. */
export async function wholeOf(sp: Savepoint): Promise<Whole> {
  const sessions: Whole = {};
  const order: string[] = [];
  for await (const { id } of sp.sessions.list()) {
    order.push(id);
    sessions[id] = await sessionOf(sp, id);
  }
  const agents: Whole = {};
  for await (const { id } of sp.agents.list()) agents[id] = await agentOf(sp, id);
  const conversations: Whole[] = [];
  for await (const info of sp.conversations.list()) {
    conversations.push({ info, loaded: await sp.conversations.load(info.id) });
  }
  const hits: Whole = {};
  for (const query of QUERIES) hits[query] = await sp.search(query);
  const { bytes: _, ...stats } = await sp.stats();
  const checkpoints = await sp.checkpoints.list().all();
  return { order, sessions, agents, list: await sp.agents.list().all(), conversations, hits, stats, checkpoints };
}

export interface ManyThings {
  readonly n: number;
  readonly messages: readonly unknown[];
  readonly more?: unknown;
}

/** 100 KB that do not compress. */
export function noise(seed: number, length = 100_000): Uint8Array {
  const bytes = new Uint8Array(length);
  let at = seed | 1;
  for (let index = 0; index < length; index++) {
    at = (Math.imul(at, 1664525) + 1013904223) >>> 0;
    bytes[index] = at >>> 24;
  }
  return bytes;
}

/** A session with branches, labels, pins, notes, bytes, rewinds and forks. Returns the ids of its checkpoints. */
export async function fillSession(sp: Savepoint, id: string, agent?: string): Promise<string[]> {
  const session = sp.session<ManyThings>(id, agent === undefined ? {} : { agent });
  const said = Array.from({ length: 40 }, (_, n) => ({ role: "user", content: `${id} order ${n} ${"x".repeat(60)}` }));
  const more = {
    map: new Map<unknown, unknown>([
      ["a", new Date(5)],
      [new Date(7), 10n ** 30n],
    ]),
    set: new Set([1, "two", 3n]),
    bytes: noise(id.length),
    odd: [undefined, -0, NaN, Infinity, "\ud83d\ude00 \u0001 \u2028"],
    text: "long ".repeat(3000),
  };
  const first = await session.save({ n: 0, messages: said.slice(0, 20), more }, { label: "first", pinned: true });
  const second = await session.append("/messages", said.slice(20), {
    label: "both",
    description: "what",
    metadata: { who: "me", when: new Date(9) },
    usage: { tokens: 7, cost: 0.5 },
  });
  const third = await session.save({ n: 2, messages: said.slice(5, 30), more: { small: noise(3, 5000) } });
  await session.label(first.id, "renamed");
  await session.label(second.id, undefined);
  await session.pin(third.id);
  await session.pin(first.id, false);
  await session.rewind(second.id);
  const fork = await session.fork(first.id, { branch: "side", state: { n: 9, messages: [], more: 1n } });
  await fork.append("/messages", [{ role: "user", content: "hay" }], { label: "both" });
  await session.fork(third.id);
  await session.fork(second.id, { branch: "bare" });
  await session.save({ n: 3, messages: said }, { id: `${id}-chosen`, label: "both" });
  return (await session.history({ allBranches: true, order: "oldest" }).all()).map((info) => info.id);
}

/** An agent with conversations of every kind, checkpoints that hold deleted conversations, and sessions. */
export async function fillAgent(sp: Savepoint, agent: string): Promise<string[]> {
  const own = (id: string): string => `${agent}-${id}`;
  const say = (...texts: string[]): ReturnType<typeof message.user>[] => texts.map((text) => message.user(text));
  const attachment: Attachment = { type: "file", name: "f", content: noise(agent.length, 20_000) };
  await sp.agents.save({ id: agent, name: `Agent ${agent}`, state: { solved: 1, map: new Map([[1, 2n]]) } });
  await sp.conversations.create({ id: own("gone"), agent, messages: say("needle in what is gone", "two") });
  await sp.conversations.create({ id: own("empty"), agent, title: "Titel", tags: ["t"] });
  await sp.conversations.create({ id: own("cut"), agent, messages: say("one", "two", "three needle") });
  await sp.conversations.create({
    id: own("kept"),
    agent,
    metadata: { lang: "de", at: new Date(3) },
    messages: [message.user("with a file", { attachments: [attachment] })],
  });
  const first = await sp.checkpoints.create({ agent, label: "first", pinned: true, metadata: { why: "test" } });
  await sp.conversations.delete(own("gone"));
  await sp.conversations.save({ id: own("cut"), messages: say("one", "four") });
  await sp.conversations.archive(own("kept"));
  await sp.conversations.tag(own("kept"), ["x", "y"]);
  await sp.agents.save({ id: agent, name: `Agent ${agent}`, systemPrompt: "Be.", state: { solved: 2 } });
  await sp.checkpoints.create({ agent, description: "second" });
  await sp.checkpoints.restore(first.id);
  await sp.conversations.append(own("gone"), say("it is back", "hay"));
  await sp.conversations.rename(own("cut"), "Titel");
  await sp.conversations.create({ id: own("late"), agent, messages: say("late order") });
  await sp.checkpoints.create({ agent });
  await sp.conversations.delete(own("late"));
  await sp.agents.update(agent, { state: { solved: 3, list: Array.from({ length: 30 }, (_, n) => `${n} order`) } });
  await fillSession(sp, own("session"), agent);
  const ids: string[] = [];
  for await (const { id } of sp.checkpoints.list({ agent, of: "agent" })) ids.push(id);
  return ids;
}

/** Fills a store with data of every kind. */
export async function fillStore(sp: Savepoint): Promise<void> {
  await fillSession(sp, "s");
  await fillAgent(sp, "a");
  await sp.conversations.create({ id: "nobody's", messages: [message.user("needle of nobody")] });
  await sp.session("cleared").save({ n: 1, messages: [] });
  await sp.session("cleared").clear();
  await sp.session("deleted").save({ n: 1, messages: [] });
  await sp.sessions.delete("deleted");
}

/** Other things, under other ids, so that numbers are taken. */
export async function fillWithOthers(sp: Savepoint, name: string): Promise<void> {
  await fillSession(sp, `${name}-session`);
  await fillAgent(sp, `${name}-agent`);
  for (let n = 0; n < 12; n++) {
    await sp.conversations.create({ id: `${name}-${n}`, messages: [message.user(`${name} ${n}`)] });
  }
}
