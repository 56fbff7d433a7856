/** A Savepoint that is confined to one agent reaches nothing that belongs to another agent or to none. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Agent, defineAgent, isSavepointError, message, type Run, Savepoint } from "../../src/index.js";
import {
  conversationKey,
  type ConversationRecord,
  decodeConversation,
  encodeConversation,
  ownedBy,
  ownerKey,
  sessionKey,
} from "../../src/records/index.js";
import { openStore, type Store } from "../../src/store/index.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";
import { chooseStores } from "../support/choose-stores.js";

/** Must never be seen. Everything of other agents contains it, their ids included. */
const SECRET = "SECRET";

interface Talk {
  readonly said: string[];
}

function build(name: string): Agent<string, Talk, string> {
  return defineAgent({
    name,
    initial: (input: string): Talk => ({ said: [input] }),
    receive: (state: Talk, input: string): Talk => ({ said: [...state.said, input] }),
    step: async (run: Run<Talk>) => {
      if (run.state.said.at(-1)?.includes("ask")) await run.ask("Really?");
      return run.complete(`done ${run.state.said.join()}`);
    },
  });
}
const me = build("me");
const other = build("other");

/** Names that a caller of the scoped handle uses. */
interface Names {
  readonly session: string;
  readonly waiting: string;
  readonly conversation: string;
  readonly agent: string;
  readonly checkpoint: string;
  readonly chosen: string;
  readonly agentCheckpoint: string;
  readonly label: string;
}

const MISSING: Names = {
  session: "missing-session",
  waiting: "missing-waiting",
  conversation: "missing-conversation",
  agent: "missing-agent",
  checkpoint: "missing-checkpoint",
  chosen: "missing-chosen",
  agentCheckpoint: "missing-agent-checkpoint",
  label: "missing-label",
};

async function fillOwn(sp: Savepoint): Promise<void> {
  await sp.agents.save({ id: "me", name: "Me", state: { mine: true } });
  await sp.session("mine", { agent: "me" }).save({ mine: 1 }, { label: "mine" });
  await sp.conversations.create({ id: "mine", agent: "me", messages: [message.user("my storm")] });
  await sp.checkpoints.create({ agent: "me", label: "own" });
}

/** Fills the store with data of another agent, or of none. */
async function fillForeign(sp: Savepoint, owner: string | undefined): Promise<Names> {
  const prefix = `${SECRET}-${owner ?? "nobody"}`;
  const of = owner === undefined ? {} : { agent: owner };
  const said = { label: `${prefix}-label`, resumeHint: SECRET, metadata: { text: SECRET } };
  const session = `${prefix}-session`;
  const { id: checkpoint } = await sp.session(session, of).save({ messages: [message.user(`${SECRET} storm`)] }, said);
  await sp.session(session, of).annotate({ seq: 0 }, "note", () => SECRET);
  const { id: chosen } = await sp
    .session(session, of)
    .save({ text: SECRET, blob: new Uint8Array(5000) }, { id: `${prefix}-chosen` });
  await sp.session(session, of).fork({ seq: 0 }, { branch: `${prefix}-branch` });
  const conversation = `${prefix}-conversation`;
  const messages = [message.user(`${SECRET} storm`), message.user("again")];
  await sp.conversations.create({ id: conversation, ...of, title: SECRET, tags: [SECRET], messages });
  const waiting = `${prefix}-waiting`;
  if (owner === "other") await sp.run(other, { session: waiting, input: `ask ${SECRET}` });
  else await sp.session(waiting).save({ text: SECRET });
  await sp.autoCheckpoints.set({ session }, { interval: "1h" });
  await sp.retention.set({ session }, { keepLast: 77 });
  let agentCheckpoint = `${prefix}-none`;
  if (owner !== undefined) {
    await sp.agents.save({ id: owner, name: SECRET, systemPrompt: SECRET, state: { text: SECRET } });
    await sp.autoCheckpoints.set({ agent: owner }, { interval: "1h" });
    await sp.retention.set({ agent: owner }, { keepLast: 78 });
    ({ id: agentCheckpoint } = await sp.checkpoints.create({ agent: owner, label: SECRET }));
    await sp.enqueue(owner, { session: `${prefix}-queued`, input: SECRET });
  }
  return {
    session,
    waiting,
    conversation,
    agent: owner ?? `${prefix}-agent`,
    checkpoint,
    chosen,
    agentCheckpoint,
    label: said.label,
  };
}

/** Every record of the store but those of the own agent, by key: what must not change. */
async function recordsOfOthers(store: Store): Promise<unknown> {
  const records = await store.list({ from: " ", to: "~" }, { limit: 100_000 });
  const shared = /^(#|p$|h|o)/;
  return records.filter(
    ({ key }) => !shared.test(key) && JSON.stringify(records.filter((each) => each.key === key)).includes(SECRET),
  );
}

type Call = (sp: Savepoint, names: Names) => unknown;
/** `same`: the outcome is that of a name that does not exist. Otherwise the code of the error. */
type Decision = readonly [outcome: "same" | "OUT_OF_SCOPE" | "INVALID_ARGUMENT", ...calls: Call[]];
/** Methods that name nothing of others, or that are tried in other tests. */
const NOTHING = ["same"] as const;

const session: Record<string, Decision> = {
  save: ["OUT_OF_SCOPE", (sp, n) => sp.session(n.session).save({ a: 1 })],
  append: [
    "same",
    (sp, n) => sp.session(n.session).append("/messages", [1]),
    (sp, n) => sp.session(n.session, { branch: "b" }).append("/messages", [1]),
  ],
  update: ["OUT_OF_SCOPE", (sp, n) => sp.session(n.session).update(() => ({ a: 1 }))],
  latest: ["same", (sp, n) => sp.session(n.session).latest()],
  complete: ["same", (sp, n) => sp.session(n.session).complete()],
  resolveToolCalls: ["same", (sp, n) => sp.session(n.session).resolveToolCalls("drop")],
  journal: ["same", (sp, n) => sp.session(n.waiting).journal({ all: true }).all()],
  activity: ["same", (sp, n) => sp.session(n.waiting).activity().all()],
  effectsAfter: ["same", (sp, n) => sp.session(n.waiting).effectsAfter({ seq: 0 })],
  head: ["same", (sp, n) => sp.session(n.session).head()],
  load: [
    "same",
    (sp, n) => sp.session(n.session).load({ seq: 0 }),
    (sp, n) => sp.session("mine").load(n.checkpoint),
    (sp, n) => sp.session("mine").load(n.chosen),
    (sp, n) => sp.session("mine").load(`${n.session}#0`),
    (sp, n) => sp.session(n.session).load({ label: n.label }, { partial: true }),
  ],
  history: ["same", (sp, n) => sp.session(n.session).history({ allBranches: true }).all()],
  branches: ["same", (sp, n) => sp.session(n.session).branches().all()],
  fork: [
    "same",
    (sp, n) => sp.session(n.session).fork({ seq: 0 }, { branch: "x" }),
    (sp, n) => sp.session("mine").fork(n.checkpoint),
  ],
  rewind: ["same", (sp, n) => sp.session(n.session).rewind({ seq: 0 }), (sp, n) => sp.session("mine").rewind(n.chosen)],
  diff: [
    "same",
    (sp, n) => sp.session(n.session).diff({ seq: 0 }, { seq: 1 }),
    (sp, n) => sp.session("mine").diff({ seq: 0 }, n.checkpoint),
  ],
  label: ["same", (sp, n) => sp.session(n.session).label({ seq: 0 }, "x")],
  pin: ["same", (sp, n) => sp.session(n.session).pin({ seq: 0 })],
  annotate: ["same", (sp, n) => sp.session(n.session).annotate({ seq: 0 }, "note", (before) => before)],
  annotations: ["same", (sp, n) => sp.session(n.session).annotations(0, 9)],
  prune: ["same", (sp, n) => sp.session(n.session).prune({ keepLast: 0 })],
  clear: ["same", (sp, n) => sp.session(n.session).clear()],
};

const DECISIONS: Record<string, Record<string, Decision>> = {
  sp: {
    session: ["INVALID_ARGUMENT", (sp, n) => sp.session("new", { agent: n.agent })],
    backups: ["OUT_OF_SCOPE", (sp) => sp.backups],
    url: NOTHING,
    run: ["INVALID_ARGUMENT", (sp, n) => sp.run(build(n.agent), { session: "new", input: "x" })],
    start: ["INVALID_ARGUMENT", (sp, n) => sp.start(build(n.agent), { session: n.session, input: "x" })],
    openRun: ["INVALID_ARGUMENT", (sp, n) => sp.openRun({ session: "new", agent: n.agent, initial: () => ({}) })],
    recover: ["INVALID_ARGUMENT", (sp, n) => sp.recover([build(n.agent)])],
    enqueue: ["INVALID_ARGUMENT", (sp, n) => sp.enqueue(n.agent, { session: "new", input: "x" })],
    worker: ["INVALID_ARGUMENT", (sp, n) => sp.worker([me, build(n.agent)])],
    send: ["same", (sp, n) => sp.send(n.waiting, "x"), (sp, n) => sp.send(n.session, "x", { key: "k" })],
    answer: ["same", (sp, n) => sp.answer(n.waiting, "yes"), (sp, n) => sp.answer(n.session, "yes")],
    cancel: ["same", (sp, n) => sp.cancel(n.waiting), (sp, n) => sp.cancel(n.session, "why")],
    requeue: ["same", (sp, n) => sp.requeue(n.waiting), (sp, n) => sp.requeue(n.session)],
    watch: ["same", (sp, n) => watchOnce(sp, n.waiting), (sp, n) => watchOnce(sp, n.session)],
    stream: ["same", (sp, n) => streamOnce(sp, n.waiting), (sp, n) => streamOnce(sp, n.session)],
    journal: ["same", (sp, n) => sp.journal(n.waiting).all(), (sp, n) => sp.journal(n.waiting, { all: true }).all()],
    queue: ["same", (sp) => sp.queue().all(), (sp, n) => sp.queue({ agent: n.agent }).all()],
    workers: ["OUT_OF_SCOPE", (sp) => sp.workers()],
    search: [
      "same",
      (sp) => sp.search("storm"),
      (sp) => sp.search(SECRET.toLowerCase()),
      (sp, n) => sp.search("storm", { agent: n.agent }),
    ],
    stats: ["same", (sp) => sp.stats(), (sp, n) => sp.stats({ agent: n.agent })],
    prune: [
      "same",
      (sp, n) => sp.prune({ session: n.session, keepLast: 0 }),
      (sp, n) => sp.prune({ agent: n.agent, keepLast: 0 }),
    ],
    export: [
      "same",
      async (sp, n) => (await sp.export({ session: n.session }).bytes()).length,
      async (sp, n) => (await sp.export({ agent: n.agent }).bytes()).length,
      async (sp, n) => (await sp.export(n.checkpoint).bytes()).length,
      async (sp) => Buffer.from(await sp.export().bytes()).includes(SECRET),
    ],
    import: ["OUT_OF_SCOPE", async (sp) => sp.import(await sp.export({ session: "mine" }).bytes())],
    verify: [
      "same",
      (sp, n) => sp.verify({ session: n.session, deep: true }),
      (sp, n) => sp.verify({ agent: n.agent }),
      (sp, n) => sp.verify({ checkpoint: n.checkpoint }),
    ],
    repair: ["OUT_OF_SCOPE", (sp) => sp.repair()],
    backup: ["OUT_OF_SCOPE", (sp) => sp.backup({ to: "never-created" })],
    compact: ["OUT_OF_SCOPE", (sp) => sp.compact()],
    erase: ["OUT_OF_SCOPE", (sp) => sp.erase({ session: "s" })],
    keys: ["OUT_OF_SCOPE", (sp) => sp.keys()],
    rekey: ["OUT_OF_SCOPE", (sp) => sp.rekey()],
    bytes: ["OUT_OF_SCOPE", (sp) => sp.bytes()],
    on: NOTHING,
    close: NOTHING,
  },
  session,
  sessions: {
    list: [
      "same",
      (sp) => sp.sessions.list().all(),
      (sp, n) => sp.sessions.list({ agent: n.agent }).all(),
      (sp) => sp.sessions.list({ status: "waiting" }).all(),
    ],
    load: ["same", (sp, n) => sp.sessions.load(n.session), (sp, n) => sp.sessions.load(n.waiting)],
    delete: ["same", (sp, n) => sp.sessions.delete(n.session), (sp, n) => sp.sessions.delete(n.waiting)],
    bytes: ["same", (sp, n) => sp.sessions.bytes(n.session), (sp, n) => sp.sessions.bytes(n.waiting)],
  },
  agents: {
    save: ["INVALID_ARGUMENT", (sp, n) => sp.agents.save({ id: n.agent, name: "x" })],
    update: ["same", (sp, n) => sp.agents.update(n.agent, { name: "x" })],
    load: ["same", (sp, n) => sp.agents.load(n.agent)],
    list: ["same", (sp) => sp.agents.list().all()],
    delete: ["same", (sp, n) => sp.agents.delete(n.agent)],
  },
  conversations: {
    create: ["OUT_OF_SCOPE", (sp, n) => sp.conversations.create({ id: n.conversation })],
    save: ["OUT_OF_SCOPE", (sp, n) => sp.conversations.save({ id: n.conversation, messages: [] })],
    append: [
      "same",
      (sp, n) => sp.conversations.append(n.conversation, [message.user("x")]),
      (sp, n) => sp.conversations.append(n.conversation, []),
    ],
    load: [
      "same",
      (sp, n) => sp.conversations.load(n.conversation),
      (sp, n) => sp.conversations.load(n.conversation, { at: n.agentCheckpoint }),
      (sp, n) => sp.conversations.load("mine", { at: n.agentCheckpoint }),
    ],
    list: ["same", (sp) => sp.conversations.list().all(), (sp, n) => sp.conversations.list({ agent: n.agent }).all()],
    rename: ["same", (sp, n) => sp.conversations.rename(n.conversation, "x")],
    tag: ["same", (sp, n) => sp.conversations.tag(n.conversation, ["x"])],
    archive: ["same", (sp, n) => sp.conversations.archive(n.conversation)],
    update: ["same", (sp, n) => sp.conversations.update(n.conversation, { title: "x" })],
    delete: ["same", (sp, n) => sp.conversations.delete(n.conversation)],
    search: [
      "same",
      (sp) => sp.conversations.search("storm"),
      (sp, n) => sp.conversations.search("again", { agent: n.agent }),
    ],
  },
  checkpoints: {
    create: ["same", (sp, n) => sp.checkpoints.create({ agent: n.agent })],
    load: [
      "same",
      (sp, n) => sp.checkpoints.load(n.checkpoint),
      (sp, n) => sp.checkpoints.load(n.chosen),
      (sp, n) => sp.checkpoints.load(n.agentCheckpoint),
      (sp, n) => sp.checkpoints.load(`${n.session}#0`),
    ],
    find: [
      "same",
      (sp, n) => sp.checkpoints.find(n.label),
      (sp, n) => sp.checkpoints.find(n.checkpoint),
      (sp, n) => sp.checkpoints.find(n.chosen.slice(-8)),
      (sp, n) => sp.checkpoints.find(n.session),
    ],
    latest: [
      "same",
      (sp, n) => sp.checkpoints.latest({ session: n.session }),
      (sp, n) => sp.checkpoints.latest({ agent: n.agent }),
      (sp) => sp.checkpoints.latest(),
    ],
    list: [
      "same",
      (sp) => sp.checkpoints.list().all(),
      (sp, n) => sp.checkpoints.list({ session: n.session }).all(),
      (sp, n) => sp.checkpoints.list({ agent: n.agent }).all(),
    ],
    restore: [
      "same",
      (sp, n) => sp.checkpoints.restore(n.checkpoint),
      (sp, n) => sp.checkpoints.restore(n.chosen, { dryRun: true }),
      (sp, n) => sp.checkpoints.restore(n.agentCheckpoint),
    ],
    delete: [
      "same",
      (sp, n) => sp.checkpoints.delete(n.checkpoint),
      (sp, n) => sp.checkpoints.delete(n.agentCheckpoint),
    ],
  },
  autoCheckpoints: {
    set: [
      "same",
      (sp, n) => sp.autoCheckpoints.set({ session: n.session }),
      (sp, n) => sp.autoCheckpoints.set({ agent: n.agent }),
    ],
    load: [
      "same",
      (sp, n) => sp.autoCheckpoints.load({ session: n.session }),
      (sp, n) => sp.autoCheckpoints.load({ agent: n.agent }),
    ],
    remove: [
      "same",
      (sp, n) => sp.autoCheckpoints.remove({ session: n.session }),
      (sp, n) => sp.autoCheckpoints.remove({ agent: n.agent }),
    ],
    start: [
      "same",
      (sp, n) => sp.autoCheckpoints.start({ agent: n.agent }),
      (sp, n) => sp.autoCheckpoints.start({ session: sp.session(n.session), state: () => ({}) }),
    ],
    stop: [
      "same",
      (sp, n) => sp.autoCheckpoints.stop({ agent: n.agent }),
      (sp, n) => sp.autoCheckpoints.stop({ session: n.session }),
    ],
    beforeOperation: ["same", (sp, n) => sp.autoCheckpoints.beforeOperation(n.agent, "x")],
  },
  retention: {
    set: [
      "OUT_OF_SCOPE",
      (sp) => sp.retention.set({}, { keepLast: 1 }),
      (sp, n) => sp.retention.set({ agent: n.agent }, { keepLast: 1 }),
      (sp, n) => sp.retention.set({ session: n.session }, { keepLast: 1 }),
    ],
    load: [
      "same",
      (sp, n) => sp.retention.load({ session: n.session }),
      (sp, n) => sp.retention.load({ agent: n.agent }),
      (sp) => sp.retention.load({}),
    ],
    list: ["same", (sp) => sp.retention.list().all()],
    delete: [
      "same",
      (sp, n) => sp.retention.delete({ session: n.session }),
      (sp, n) => sp.retention.delete({ agent: n.agent }),
      (sp) => sp.retention.delete({}),
    ],
    apply: ["same", (sp) => sp.retention.apply()],
  },
};

/** Calls that create something under an id that another agent uses. */
const TAKEN: readonly Call[] = [
  (sp, n) => sp.run(me, { session: n.session, input: "x" }),
  (sp, n) => sp.start(me, { session: n.waiting, input: "x" }),
  (sp, n) => sp.enqueue("me", { session: n.session, input: "x" }),
  (sp, n) => sp.openRun({ session: n.session, initial: () => ({}) }),
];

async function outcomeOf(call: Call, sp: Savepoint, names: Names): Promise<{ code: string; text: string }> {
  const describeValue = (_: string, value: unknown): unknown => (value instanceof Map ? [...value] : value);
  try {
    const value = await call(sp, names);
    return { code: "", text: JSON.stringify(value, describeValue) ?? "undefined" };
  } catch (error) {
    if (!isSavepointError(error)) throw error;
    const causes: unknown[] = [];
    for (let each: unknown = error; each instanceof Error; each = each.cause) causes.push(each.message);
    return { code: error.code, text: JSON.stringify([error.code, causes, error.details]) };
  }
}

/** The first event of a session, if there is one now. */
async function watchOnce(sp: Savepoint, id: string): Promise<unknown> {
  const controller = new AbortController();
  const first = sp.watch(id, { signal: controller.signal }).next();
  // The iteration that has begun reads the session once, and does not wait for its next change.
  controller.abort();
  return first;
}

/** The first recorded delta of a session, or how its stream ends, if that is known now. */
async function streamOnce(sp: Savepoint, id: string): Promise<unknown> {
  const controller = new AbortController();
  const first = sp.stream(id, { signal: controller.signal }).next();
  controller.abort();
  return first;
}

/** An outcome without the names that the caller has passed. */
function withoutNames(text: string, names: Names): string {
  return Object.entries(names)
    .sort(([, a], [, b]) => String(b).length - String(a).length)
    .reduce((rest, [kind, name]) => rest.replaceAll(String(name), `<${kind}>`), text);
}

function methodsOf(object: object): string[] {
  const names: string[] = [];
  for (let each = object; each !== Object.prototype; each = Object.getPrototypeOf(each) as object) {
    if (each !== object) names.push(...Object.getOwnPropertyNames(each).filter((name) => name !== "constructor"));
  }
  return names.sort();
}

interface Kind {
  readonly name: string;
  readonly url: (folder: string) => string | Promise<string>;
  readonly dispose?: (url: string) => Promise<void>;
}

const STORES: readonly Kind[] = [
  { name: "memory:", url: () => "memory:" },
  { name: "sqlite:", url: (folder: string) => `sqlite:${join(folder, "agents.db")}` },
  { name: "file:", url: (folder: string) => `file:${join(folder, "store")}` },
  { name: "postgres:", url: newPostgresUrl, dispose: dropSchema },
];

describe.each(chooseStores(STORES))("a Savepoint with a scope on $name", ({ url, dispose }) => {
  let folder: string;
  let opened: string;
  let store: Store;
  let admin: Savepoint;
  let sp: Savepoint;
  const events: unknown[] = [];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "savepoint-scope-"));
    opened = await url(folder);
    store = await openStore(opened, { durability: "process" });
    admin = await Savepoint.open(store);
    await fillOwn(admin);
    events.length = 0;
    const record = (event: unknown): void => void events.push(event);
    const on = { damage: record, backgroundFailure: record, uncleanShutdown: record, run: record };
    sp = await Savepoint.open(store, { scope: { agent: "me" }, on });
  });

  afterEach(async () => {
    await sp.close();
    await admin.close();
    await store.close();
    await dispose?.(opened);
    await rm(folder, { recursive: true });
  });

  it("has a decision for every public method", () => {
    expect(Object.keys(DECISIONS["sp"] ?? {}).sort()).toEqual(methodsOf(sp));
    expect(Object.keys(session).sort()).toEqual(methodsOf(sp.session("mine")));
    const rooms = Object.keys(sp).filter((name) => name !== "lastShutdown");
    expect(
      Object.keys(DECISIONS)
        .filter((name) => name !== "sp" && name !== "session")
        .sort(),
    ).toEqual(rooms.sort());
    for (const name of rooms) {
      const room = (sp as unknown as Record<string, object>)[name] as object;
      expect(Object.keys(DECISIONS[name] ?? {}).sort()).toEqual(methodsOf(room));
    }
  });

  it.each(["other", undefined])("reports everything of agent %s as missing and does not change it", async (owner) => {
    const foreign = await fillForeign(admin, owner);
    const before = await recordsOfOthers(store);
    expect((before as unknown[]).length).toBeGreaterThan(10);
    for (const [room, methods] of Object.entries(DECISIONS)) {
      for (const [method, [expected, ...calls]] of Object.entries(methods)) {
        for (const [index, call] of calls.entries()) {
          const what = `${room}.${method} ${index}`;
          const missing = expected === "same" ? await outcomeOf(call, sp, MISSING) : undefined;
          const { code, text } = await outcomeOf(call, sp, foreign);
          const shown = withoutNames(text, foreign);
          expect(shown, what).not.toContain(SECRET);
          expect(shown, what).not.toContain("other");
          if (missing) expect(shown, what).toBe(withoutNames(missing.text, MISSING));
          else expect([what, code]).toEqual([what, expected]);
        }
      }
    }
    for (const [index, call] of TAKEN.entries()) {
      const { code, text } = await outcomeOf(call, sp, foreign);
      expect([index, code]).toEqual([index, "OUT_OF_SCOPE"]);
      expect(withoutNames(text, foreign)).not.toContain(SECRET);
    }
    expect(await recordsOfOthers(store)).toEqual(before);
    expect(JSON.stringify([events, sp.lastShutdown])).not.toContain(SECRET);
  });

  it("gives new sessions and conversations to its agent", async () => {
    await sp.session("new").save({ a: 1 });
    await sp.conversations.create({ id: "new" });
    await sp.conversations.save({ id: "newer", messages: [message.user("hi")] });
    const run = await sp.openRun({ session: "open", initial: () => ({}) });
    await run.complete("done");
    expect((await admin.sessions.list({ agent: "me" }).all()).map(({ id }) => id)).toEqual(["open", "new", "mine"]);
    const conversations = await admin.conversations.list({ agent: "me" }).all();
    expect(conversations.map(({ id }) => id)).toEqual(["newer", "new", "mine"]);
  });

  it("does everything for its own agent", async () => {
    await fillForeign(admin, "other");
    const own = sp.session<{ list: number[] }>("mine");
    await own.save({ list: [1] });
    await own.append("/list", [2]);
    const { id } = await own.update((state) => ({ list: [...(state?.list ?? []), 3] }), { id: "chosen-1" });
    await own.label(id, "three");
    await own.pin(id);
    await own.annotate(id, "note", () => "mine");
    const fork = await own.fork(id, { branch: "side" });
    await fork.save({ list: [9] });
    await own.rewind({ seq: 0 });
    expect((await own.branches().all()).map(({ name }) => name)).toEqual(["main", "side"]);
    expect([...(await own.annotations(0, 9)).values()].length).toBe(1);
    expect((await sp.checkpoints.load("chosen-1"))?.agent).toBe("me");
    expect((await sp.checkpoints.find(id.slice(-8))).map((info) => info.id)).toEqual(["chosen-1"]);
    expect((await sp.prune({ agent: "me", keepLast: 1 })).removed).toBeGreaterThan(0);

    await sp.agents.update("me", { name: "Me again" });
    const { id: kept } = await sp.checkpoints.create({ agent: "me" });
    await sp.conversations.append("mine", [message.user("thunder")]);
    await sp.conversations.delete("mine");
    expect((await sp.conversations.load("mine", { at: kept }))?.messages).toEqual([message.user("my storm")]);
    await sp.checkpoints.restore(kept);
    await sp.conversations.append("mine", [message.user("lightning")]);
    const { id: later } = await sp.checkpoints.create({ agent: "me" });
    await sp.conversations.rename("mine", "Weather");

    // A second handle has learned nothing yet.
    await using fresh = await Savepoint.open(store, { scope: { agent: "me" } });
    const loaded = await fresh.conversations.load("mine", { at: later });
    expect(loaded?.messages).toEqual([message.user("my storm"), message.user("lightning")]);
    expect((await fresh.search("lightning")).length).toBe(1);
    expect((await fresh.session("mine", { branch: "side" }).latest())?.state).toEqual({ list: [9] });
    expect(await fresh.stats()).toEqual(await admin.stats({ agent: "me" }));
    expect((await fresh.verify({ agent: "me", deep: true })).problems).toEqual([]);
    expect((await fresh.checkpoints.list().all()).length).toBe(
      (await admin.checkpoints.list({ agent: "me" }).all()).length,
    );
    await using copy = await Savepoint.open("memory:");
    await copy.import(await fresh.export().bytes());
    expect(await copy.agents.load("me")).toEqual(await admin.agents.load("me"));

    await sp.retention.set({ agent: "me" }, { keepLast: 2 });
    await sp.retention.set({ session: "mine" }, { keepLast: 3 });
    await sp.retention.apply();
    expect((await sp.retention.list().all()).length).toBe(2);
    expect((await sp.autoCheckpoints.set({ session: "mine" }, { max: 3 })).max).toBe(3);
    expect((await sp.session("mine").clear()) > 0).toBe(true);
    expect(await sp.sessions.delete("mine")).toBe(true);
    expect(await sp.agents.delete("me")).toBe(true);
    expect(await admin.stats({ agent: "me" })).toMatchObject({ agents: 0, conversations: 0, sessions: 0 });
    expect((await admin.verify({ deep: true })).problems).toEqual([]);
    expect(events).toEqual([]);
  });

  it("runs, resumes and cancels the sessions of its own agent", async () => {
    await fillForeign(admin, "other");
    expect((await sp.run(me, { session: "talk", input: "hi" })).output).toBe("done hi");
    expect(await sp.send("talk", "ask again")).toBe(true);
    const handles = await sp.recover([me]);
    expect(handles.map(({ session: id }) => id)).toEqual(["talk"]);
    expect((await handles[0]?.result())?.status).toBe("waiting");
    expect((await sp.sessions.list({ status: "waiting" }).all()).map(({ id }) => id)).toEqual(["talk"]);
    await sp.answer("talk", "yes");
    expect((await sp.run(me, { session: "talk" })).output).toBe("done hi,ask again");
    expect(await sp.enqueue("me", { session: "queued", input: "work" })).toBe(true);
    await using worker = sp.worker([me]);
    await worker.start();
    const watched: string[] = [];
    for await (const { type } of sp.watch("queued")) watched.push(type);
    expect(watched).toContain("status");
    expect((await sp.sessions.load("queued"))?.status).toBe("completed");
    await sp.run(me, { session: "stopped", input: "ask" });
    expect(await sp.cancel("stopped", "enough")).toBe(true);
    expect((await admin.sessions.load("stopped"))?.reason).toBe("cancelled: enough");
    // The run of the other agent still waits, and its queued session is not started.
    expect((await admin.sessions.load(`${SECRET}-other-waiting`))?.status).toBe("waiting");
    expect((await admin.sessions.load(`${SECRET}-other-queued`))?.status).toBe("queued");
  });

  it("keeps the record of an ended process that a run of another agent needs", async () => {
    const { session: id } = await fillForeign(admin, "other");
    const process = { host: "gone", pid: 1, boot: "gone", start: 1 };
    const value = JSON.stringify({ until: 0, process });
    await store.commit({
      puts: [
        { key: ownerKey("held"), value },
        { key: ownerKey("free"), value },
        { key: `${ownedBy("held").from}${id}\tmain`, value: "" },
      ],
    });
    await sp.recover([me]);
    const [held, free] = await store.get([ownerKey("held"), ownerKey("free")]);
    expect([held !== undefined, free !== undefined]).toEqual([true, false]);
  });

  it("does not write to a session or conversation that another agent has created again under its id", async () => {
    const own = sp.session("mine");
    await own.save({ mine: 2 });
    await sp.conversations.append("mine", [message.user("more")]);
    const run = await sp.openRun({ session: "open", initial: () => ({}) });
    await admin.agents.delete("me");
    await admin.session("mine", { agent: "other" }).save({ text: SECRET });
    await admin.conversations.create({ id: "mine", agent: "other", messages: [message.user(SECRET)] });
    await admin.session("open", { agent: "other" }).save({ text: SECRET });
    const before = await recordsOfOthers(store);
    const calls: Call[] = [
      () => own.save({ mine: 3 }),
      () => own.latest(),
      () => own.label({ seq: 0 }, "x"),
      () => sp.conversations.append("mine", [message.user("more")]),
      () => run.effect("x", () => 1),
      () => run.complete("x"),
    ];
    for (const call of calls) {
      const { text } = await outcomeOf(call, sp, MISSING);
      expect(text).not.toContain(SECRET);
      expect(text).not.toContain("other");
    }
    expect(await recordsOfOthers(store)).toEqual(before);
    expect((await admin.sessions.load("open"))?.head?.seq).toBe(0);
    expect((await admin.conversations.load("mine"))?.messageCount).toBe(1);
  });

  it("does not follow references to messages of another agent", async () => {
    const foreign = await fillForeign(admin, "other");
    const keys = [conversationKey("mine"), conversationKey(foreign.conversation)];
    const [own, theirs] = (await store.get(keys)).map((record) =>
      decodeConversation(record && "value" in record ? record.value : ""),
    ) as [ConversationRecord, ConversationRecord];
    const forged = { ...own, base: [{ tape: theirs.number, start: 0, count: 1 }] };
    await store.commit({ puts: [{ key: conversationKey("mine"), value: encodeConversation(forged) }] });
    expect(JSON.stringify(await admin.conversations.load("mine"))).toContain(SECRET);
    await expect(sp.conversations.load("mine")).rejects.toMatchObject({ code: "DAMAGED" });
    const rest = await sp.conversations.load("mine", { partial: true });
    expect(rest?.messages).toEqual([message.user("my storm")]);
    expect(JSON.stringify([rest, events])).not.toContain(SECRET);
  });

  it("reports damage of its own sessions and conversations, and hides that of others", async () => {
    const foreign = await fillForeign(admin, "other");
    for (const [session, conversation] of [
      ["mine", "mine"],
      [foreign.session, foreign.conversation],
    ] as const) {
      await store.commit({
        puts: [
          { key: sessionKey(session), value: "{}" },
          { key: conversationKey(conversation), value: "{}" },
        ],
      });
    }
    await expect(sp.sessions.load("mine")).rejects.toMatchObject({ code: "DAMAGED" });
    await expect(sp.conversations.load("mine")).rejects.toMatchObject({ code: "DAMAGED" });
    expect(await sp.sessions.load(foreign.session)).toBeUndefined();
    expect(await sp.conversations.load(foreign.conversation)).toBeUndefined();
    expect(JSON.stringify(events)).not.toContain(SECRET);
    expect(await sp.sessions.delete("mine")).toBe(true);
    expect(await sp.conversations.delete("mine")).toBe(true);
  });

  it("rejects an invalid scope before the store is opened", async () => {
    for (const scope of [{ agent: "" }, {}, "me", null]) {
      await expect(Savepoint.open("memory:", { scope } as never)).rejects.toMatchObject({ name: "SavepointError" });
    }
  });
});
