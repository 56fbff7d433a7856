import { describe, expect, it } from "vitest";
import {
  type AgentCheckpoint,
  message,
  type RestorePlan,
  type RestoreReport,
  type Savepoint,
} from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";
import { ALL_KINDS, codeOf, useLab } from "../run/lab.js";
import { AGENT, begin, everythingOf, FAST, idsIn, patientClock, saveAgent, talk, texts } from "./agent-data.js";

function planOf({ agent, sessionId, changes, restored, recreated, removed, erased }: RestorePlan): RestorePlan {
  return { agent, sessionId, changes, restored, recreated, removed, erased };
}

/** An agent with four conversations, and afterwards everything about it is different. */
async function makeAndChange(sp: Savepoint): Promise<string> {
  await sp.agents.save({
    id: AGENT,
    name: "Then",
    type: "gpt-4",
    systemPrompt: "Be kind.",
    capabilities: ["search"],
    config: { temperature: 0 },
    state: { counter: 42, deep: { list: [1, 2, 3] } },
    metadata: { team: "a" },
  });
  await sp.conversations.create({
    id: "cut",
    agent: AGENT,
    tags: ["t1"],
    metadata: { k: 1 },
    messages: [message.user("one"), message.assistant("two"), message.user("three")],
  });
  await begin(sp, "deleted", "to be deleted");
  await begin(sp, "emptied");
  await begin(sp, "same", "stays as it is");
  await sp.conversations.create({ id: "named", agent: AGENT, title: "Its name", archived: true });
  const { id } = await sp.checkpoints.create({ agent: AGENT, label: "then" });

  await sp.agents.save({ id: AGENT, name: "Now", state: { counter: 0 } });
  await talk(sp, "cut", "four", "five");
  await sp.conversations.update("cut", { title: "New", tags: ["t2"], archived: true, metadata: { k: 2 } });
  await sp.conversations.delete("deleted");
  await talk(sp, "emptied", "not empty");
  await sp.conversations.update("named", { title: undefined, archived: false });
  await begin(sp, "newer", "made later");
  return id;
}

describe.each(STORES)("restoring checkpoints of agents on $name", (kind) => {
  const data = useData(kind);

  it("brings back the agent and its conversations with all their fields", async () => {
    const sp = await data.open(FAST);
    await sp.conversations.create({ id: "of another", agent: "agent-2", messages: [message.user("x")] });
    await sp.conversations.create({ id: "of none", messages: [message.user("y")] });
    const id = await makeAndChange(sp);
    const version = (await sp.agents.load(AGENT))?.version ?? 0;
    const report = await sp.checkpoints.restore(id);
    const then = await everythingOf(sp);
    expect(then.agent).toMatchObject({
      name: "Then",
      type: "gpt-4",
      systemPrompt: "Be kind.",
      capabilities: ["search"],
      config: { temperature: 0 },
      state: { counter: 42, deep: { list: [1, 2, 3] } },
      metadata: { team: "a" },
      active: ["cut", "deleted", "emptied", "same"],
    });
    expect(Object.keys(then.conversations).slice().sort()).toEqual(["cut", "deleted", "emptied", "named", "same"]);
    expect(then.conversations["cut"]).toMatchObject({
      title: "one",
      tags: ["t1"],
      archived: false,
      metadata: { k: 1 },
      messageCount: 3,
    });
    expect(await texts(sp, "cut")).toEqual(["one", "two", "three"]);
    expect(await texts(sp, "deleted")).toEqual(["to be deleted"]);
    expect(then.conversations["emptied"]).toMatchObject({ title: undefined, messages: [] });
    expect(then.conversations["named"]).toMatchObject({ title: "Its name", archived: true });
    expect(await sp.conversations.load("newer")).toBeUndefined();
    expect(await texts(sp, "of another")).toEqual(["x"]);
    expect(await texts(sp, "of none")).toEqual(["y"]);
    expect(report.restored.slice().sort((a, b) => (a.id < b.id ? -1 : 1))).toEqual([
      { id: "cut", messagesBefore: 5, messagesAfter: 3 },
      { id: "emptied", messagesBefore: 1, messagesAfter: 0 },
      { id: "named", messagesBefore: 0, messagesAfter: 0 },
    ]);
    expect([report.recreated, report.removed]).toEqual([["deleted"], ["newer"]]);
    expect(report).toMatchObject({ agent: AGENT, sessionId: undefined });
    expect(report.checkpoint).toMatchObject({ kind: "recovery", parentId: id, agent: AGENT });
    expect(report.before).toMatchObject({ kind: "preOperation", agent: AGENT });
    expect((await sp.agents.load(AGENT))?.version).toBe(version + 1);
    expect(await everythingOf(await data.open(FAST))).toEqual(then);
    expect(await sp.stats({ agent: AGENT })).toMatchObject({ conversations: 5, messages: 5, checkpoints: 3 });
  });

  it("reports changes of the agent as JSON pointers", async () => {
    const sp = await data.open(FAST);
    const id = await makeAndChange(sp);
    const { changes } = await sp.checkpoints.restore(id, { dryRun: true });
    const paths = changes.map(({ path }) => path);
    for (const path of ["/name", "/type", "/capabilities", "/metadata", "/systemPrompt"]) expect(paths).toContain(path);
    expect(paths.some((path) => path.startsWith("/config"))).toBe(true);
    expect(paths.some((path) => path.startsWith("/state/counter"))).toBe(true);
    expect(paths.filter((path) => path.startsWith("/conversations"))).toEqual([]);
    expect(changes.find(({ path }) => path === "/name")).toMatchObject({ op: "replace", before: "Now", value: "Then" });
  });

  it("reports beforehand what it will change, and a dry run changes nothing", async () => {
    const sp = await data.open(FAST);
    const id = await makeAndChange(sp);
    const [before, agent, stats] = [await everythingOf(sp), await sp.agents.load(AGENT), await sp.stats()];
    const listed = await idsIn(sp.checkpoints.list());
    const plan = await sp.checkpoints.restore(id, { dryRun: true });
    expect(await everythingOf(sp)).toEqual(before);
    expect(await sp.agents.load(AGENT)).toEqual(agent);
    expect(await idsIn(sp.checkpoints.list())).toEqual(listed);
    expect({ ...(await sp.stats()), bytes: 0 }).toEqual({ ...stats, bytes: 0 });
    expect(plan).not.toHaveProperty("checkpoint");
    expect(planOf(await sp.checkpoints.restore(id))).toEqual(planOf(plan));
    const nothing = await sp.checkpoints.restore(id, { dryRun: true });
    expect(nothing).toMatchObject({ changes: [], restored: [], recreated: [], removed: [] });
  });

  it("is undone by restoring the checkpoint that was taken before it, and redone the same way", async () => {
    const sp = await data.open(FAST);
    const id = await makeAndChange(sp);
    const now = await everythingOf(sp);
    const first = await sp.checkpoints.restore(id);
    const then = await everythingOf(sp);
    expect(then).not.toEqual(now);
    const second = await sp.checkpoints.restore(first.before.id);
    expect(await everythingOf(sp)).toEqual(now);
    expect([second.recreated, second.removed]).toEqual([["newer"], ["deleted"]]);
    await sp.checkpoints.restore(second.before.id);
    expect(await everythingOf(sp)).toEqual(then);
    await sp.checkpoints.restore(first.before.id);
    expect(await everythingOf(sp)).toEqual(now);
    await sp.checkpoints.restore(first.checkpoint.id);
    expect(await everythingOf(await data.open(FAST))).toEqual(then);
    await sp.compact();
    await sp.checkpoints.restore(first.before.id);
    expect(await everythingOf(sp)).toEqual(now);
  });

  it("keeps every checkpoint, including newer ones", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const a = await sp.checkpoints.create({ agent: AGENT });
    await saveAgent(sp, 2);
    const b = await sp.checkpoints.create({ agent: AGENT });
    await saveAgent(sp, 3);
    const { before, checkpoint } = await sp.checkpoints.restore(a.id);
    expect(await idsIn(sp.checkpoints.list({ agent: AGENT }))).toEqual([checkpoint.id, before.id, b.id, a.id]);
    const states = [];
    for (const { id } of [a, b, before, checkpoint]) {
      states.push(((await sp.checkpoints.load(id)) as AgentCheckpoint).state.state);
    }
    expect(states).toEqual([{ counter: 1 }, { counter: 2 }, { counter: 3 }, { counter: 1 }]);
    expect((await sp.stats()).checkpoints).toBe(4);
  });

  it("does not change sessions", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const session = sp.session("s", { agent: AGENT });
    await session.save({ n: 1 });
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await session.save({ n: 2 });
    const later = sp.session("later", { agent: AGENT });
    await later.save({ n: 3 });
    await sp.checkpoints.restore(id);
    expect((await session.latest())?.state).toEqual({ n: 2 });
    expect((await later.latest())?.state).toEqual({ n: 3 });
    expect((await session.save({ n: 4 })).seq).toBe(2);
    expect(await sp.sessions.list().all()).toHaveLength(2);
  });

  it("raises versions, so that a caller who loaded the agent before cannot overwrite it unknowingly", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await saveAgent(sp, 2);
    const loaded = await sp.agents.load(AGENT);
    await sp.checkpoints.restore(id);
    const agent = { id: AGENT, name: "Test", state: { counter: 3 } };
    expect(await codeOf(sp.agents.save(agent, { expectedVersion: loaded?.version ?? -1 }))).toBe("CONFLICT");
    expect(loaded?.version).toBe(2);
    expect((await sp.agents.save(agent, { expectedVersion: 3 })).version).toBe(4);
  });

  it("puts new messages after the restored ones, in this process and in another that had loaded the conversation", async () => {
    const [sp, other] = [await data.open(FAST), await data.open(FAST)];
    await saveAgent(sp, 1);
    await begin(sp, "cut", "one");
    await begin(sp, "gone", "uno");
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await talk(other, "cut", "two", "three");
    await talk(other, "gone", "dos");
    await begin(sp, "newer");
    await talk(other, "newer", "x");
    await sp.conversations.delete("gone");
    await sp.checkpoints.restore(id);
    await talk(other, "cut", "2");
    await talk(other, "gone", "2");
    expect(await codeOf(talk(other, "newer", "y"))).toBe("CONVERSATION_NOT_FOUND");
    await talk(sp, "cut", "3");
    await talk(sp, "gone", "3");
    for (const each of [sp, other, await data.open(FAST)]) {
      expect(await texts(each, "cut")).toEqual(["one", "2", "3"]);
      expect(await texts(each, "gone")).toEqual(["uno", "2", "3"]);
      expect((await each.conversations.load("gone"))?.messageCount).toBe(3);
    }
    expect(await codeOf(sp.conversations.create({ id: "gone", agent: AGENT }))).toBe("CONFLICT");
    await sp.conversations.create({ id: "newer", agent: AGENT });
    await talk(other, "newer", "z");
    expect(await texts(sp, "newer")).toEqual(["z"]);
  });

  it("lets an emptied conversation get its title from its next first message, in this process", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await begin(sp, "c");
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await talk(sp, "c", "first");
    await sp.checkpoints.restore(id);
    expect((await sp.conversations.load("c"))?.title).toBeUndefined();
    await talk(sp, "c", "second");
    expect((await sp.conversations.load("c"))?.title).toBe("second");
  });

  it("lets an emptied conversation get its title from its next first message, in another process that had loaded it", async () => {
    const [sp, other] = [await data.open(FAST), await data.open(FAST)];
    await saveAgent(sp, 1);
    await begin(sp, "c");
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await talk(other, "c", "first");
    await sp.checkpoints.restore(id);
    await talk(other, "c", "second");
    expect((await sp.conversations.load("c"))?.title).toBe("second");
  });

  it("makes restored conversations searchable, and removed ones not", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await begin(sp, "cut", "apples");
    await begin(sp, "gone", "bananas");
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await talk(sp, "cut", "cherries");
    await begin(sp, "newer", "dates");
    await sp.conversations.delete("gone");
    const found = async (text: string): Promise<string[]> =>
      (await sp.conversations.search(text, { agent: AGENT })).map(({ conversationId }) => conversationId);
    expect([await found("cherries"), await found("bananas")]).toEqual([["cut"], []]);
    await sp.checkpoints.restore(id);
    expect(await found("apples")).toEqual(["cut"]);
    expect(await found("bananas")).toEqual(["gone"]);
    expect(await found("cherries")).toEqual([]);
    expect(await found("dates")).toEqual([]);
    await talk(sp, "gone", "elderberries");
    expect(await found("elderberries")).toEqual(["gone"]);
    expect(await found("bananas")).toEqual(["gone"]);
  });

  it("brings back replaced messages, and a conversation that was deleted and created again under its id", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const said = ["a", "b", "c", "d"].map((text) => message.user(text));
    await sp.conversations.create({ id: "replaced", agent: AGENT, messages: said });
    await begin(sp, "again", "the first of this name");
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    const then = await everythingOf(sp);
    await sp.conversations.save({ id: "replaced", messages: [said[3], message.user("new"), said[0]] });
    await sp.conversations.delete("again");
    await begin(sp, "again", "the second");
    const now = await everythingOf(sp);
    const { before } = await sp.checkpoints.restore(id);
    expect(await everythingOf(sp)).toEqual(then);
    await talk(sp, "again", "goes on");
    expect(await texts(sp, "again")).toEqual(["the first of this name", "goes on"]);
    await sp.compact();
    await sp.checkpoints.restore(before.id);
    expect(await everythingOf(sp)).toEqual(now);
    await sp.compact();
    expect(await texts(sp, "replaced")).toEqual(["d", "new", "a"]);
    expect(await texts(sp, "again", id)).toEqual(["the first of this name"]);
  });

  it("keeps conversations in the order of their creation", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    for (const id of ["c1", "c2", "c3"]) await begin(sp, id, id);
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    const active = (await sp.agents.load(AGENT))?.activeConversations;
    await sp.conversations.delete("c1");
    await sp.checkpoints.restore(id);
    expect(active).toEqual(["c1", "c2", "c3"]);
    expect((await sp.agents.load(AGENT))?.activeConversations).toEqual(active);
    expect(await idsIn(sp.conversations.list({ agent: AGENT }))).toEqual(["c3", "c2", "c1"]);
  });

  it("reports changes of metadata with values that JSON does not have", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1, { metadata: { tags: new Set(["a"]) } });
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await saveAgent(sp, 1, { metadata: { tags: new Set(["b"]) } });
    const { changes } = await sp.checkpoints.restore(id, { dryRun: true });
    expect(changes.map(({ path }) => path)).toContain("/metadata");
  });

  it("changes nothing a second time, even for a conversation that was deleted and created again", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await begin(sp, "c", "one");
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await sp.conversations.delete("c");
    await begin(sp, "c", "another");
    await sp.checkpoints.restore(id);
    expect(await sp.checkpoints.restore(id, { dryRun: true })).toMatchObject({
      changes: [],
      restored: [],
      recreated: [],
      removed: [],
    });
  });

  it("works with metadata that has large integers", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1, { metadata: { big: 7n } });
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await saveAgent(sp, 2, { metadata: { big: 8n } });
    await sp.checkpoints.restore(id);
    expect((await sp.agents.load(AGENT))?.metadata).toEqual({ big: 7n });
  });

  describe("if the id of a conversation now belongs to another agent", () => {
    async function takeOver(sp: Savepoint): Promise<string> {
      await saveAgent(sp, 1);
      await begin(sp, "c", "mine");
      const { id } = await sp.checkpoints.create({ agent: AGENT });
      await saveAgent(sp, 2);
      await sp.conversations.delete("c");
      await sp.conversations.create({ id: "c", agent: "agent-2", messages: [message.user("theirs")] });
      return id;
    }

    it("never changes the conversation of the other agent", async () => {
      const sp = await data.open({ ...FAST, now: patientClock() });
      const id = await takeOver(sp);
      await sp.checkpoints.restore(id).catch(() => {});
      const reopened = await data.open(FAST);
      expect(await texts(reopened, "c")).toEqual(["theirs"]);
      expect((await reopened.conversations.load("c"))?.agent).toBe("agent-2");
    });

    it("fails with CONFLICT, and leaves the agent unchanged", async () => {
      const sp = await data.open({ ...FAST, now: patientClock() });
      const id = await takeOver(sp);
      expect(await codeOf(sp.checkpoints.restore(id))).toBe("CONFLICT");
      const reopened = await data.open(FAST);
      expect((await reopened.agents.load(AGENT))?.state).toEqual({ counter: 2 });
      expect((await reopened.stats({ agent: AGENT })).checkpoints).toBeLessThanOrEqual(2);
    });
  });

  it("rejects a checkpoint that does not exist", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    for (const wrong of ["", "no", "*", "s#1", `${AGENT}#0`, id.slice(1), AGENT]) {
      expect(await codeOf(sp.checkpoints.restore(wrong)), wrong).toBe("CHECKPOINT_NOT_FOUND");
      expect(await codeOf(sp.checkpoints.restore(wrong, { dryRun: true })), wrong).toBe("CHECKPOINT_NOT_FOUND");
    }
    await sp.agents.delete(AGENT);
    expect(await codeOf(sp.checkpoints.restore(id))).toBe("CHECKPOINT_NOT_FOUND");
    // Another agent of the same name may not use it.
    await saveAgent(sp, 2);
    expect(await codeOf(sp.checkpoints.restore(id))).toBe("CHECKPOINT_NOT_FOUND");
    expect((await sp.stats()).checkpoints).toBe(0);
  });

  it("loses nothing that other processes append or save meanwhile: it is in the agent or in the checkpoint taken before", async () => {
    const [sp, other] = [await data.open(FAST), await data.open(FAST)];
    await saveAgent(sp, 0);
    await begin(sp, "a", "start");
    await begin(sp, "b", "start");
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    const acknowledged: [string, string][] = [];
    const counters: number[] = [];
    const writing = (async () => {
      for (let n = 0; n < 80; n++) {
        const where = n % 2 === 0 ? "a" : "b";
        await talk(n % 3 === 0 ? sp : other, where, `m${n}`);
        acknowledged.push([where, `m${n}`]);
        if (n % 10 === 5) {
          await other.agents.update(AGENT, { state: { counter: n } });
          counters.push(n);
        }
      }
    })();
    const reports: RestoreReport[] = [];
    for (let n = 0; n < 6; n++) reports.push(await sp.checkpoints.restore(id));
    await writing;
    const places = new Map<string, Set<string>>();
    const seen = new Set([JSON.stringify((await sp.agents.load(AGENT))?.state)]);
    for (const where of ["a", "b"]) {
      const all = [...((await texts(sp, where)) ?? [])];
      expect(all[0]).toBe("start");
      for (const { before } of reports) all.push(...((await texts(sp, where, before.id)) ?? []));
      places.set(where, new Set(all));
    }
    for (const { before } of reports) {
      seen.add(JSON.stringify(((await sp.checkpoints.load(before.id)) as AgentCheckpoint).state.state));
    }
    for (const [where, text] of acknowledged) expect(places.get(where), text).toContain(text);
    expect(acknowledged).toHaveLength(80);
    // Of those that were saved one over the other only the last is to be found, so at least the very last.
    expect(seen).toContain(JSON.stringify({ counter: counters.at(-1) }));
    // Checkpoints that were taken in vain are not left behind: the first one, and two per restore.
    expect((await sp.stats({ agent: AGENT })).checkpoints).toBe(1 + 2 * reports.length);
  });

  it("can be called twice at once: one restore follows the other", async () => {
    const savepoints = [await data.open(FAST), await data.open(FAST)] as const;
    const [sp] = savepoints;
    const made: string[] = [];
    for (let n = 0; n < 2; n++) {
      await saveAgent(sp, n);
      await begin(sp, `c${n}`, `${n}`);
      made.push((await sp.checkpoints.create({ agent: AGENT })).id);
    }
    const reports = await Promise.all(
      [0, 1, 0, 1].map((n, i) => savepoints[i < 2 ? 0 : 1].checkpoints.restore(made[n] ?? "")),
    );
    expect(new Set(reports.map((report) => report.before.id)).size).toBe(4);
    const { agent, conversations } = await everythingOf(sp);
    const counter = (agent as { state: { counter: number } }).state.counter;
    expect(Object.keys(conversations).slice().sort()).toEqual(counter === 0 ? ["c0"] : ["c0", "c1"]);
    expect((await sp.agents.load(AGENT))?.version).toBe(6);
    expect(await idsIn(sp.checkpoints.list({ agent: AGENT }))).toHaveLength(2 + 2 * 4);
  });

  it("of a session is a rewind of its branch", async () => {
    const sp = await data.open(FAST);
    const session = sp.session<{ n: number }>("s", { agent: AGENT });
    const a = await session.save({ n: 1 });
    const b = await session.save({ n: 2 });
    const branch = await session.fork(a.id, { branch: "side", state: { n: 10 } });
    const side = await branch.head();
    await branch.save({ n: 11 });
    const plan = await sp.checkpoints.restore(a.id, { dryRun: true });
    expect(plan).toMatchObject({ agent: undefined, sessionId: "s", restored: [], recreated: [], removed: [] });
    expect(plan.changes).toMatchObject([{ op: "replace", path: "/n", before: 2, value: 1 }]);
    expect((await session.head())?.id).toBe(b.id);
    const report = await sp.checkpoints.restore("s#0");
    expect(planOf(report)).toEqual(planOf(plan));
    expect(report.checkpoint).toMatchObject({ kind: "recovery", parentId: a.id, branch: "main", sessionId: "s" });
    expect(report.before).toMatchObject({ kind: "preOperation", branch: "main" });
    expect((await session.latest())?.state).toEqual({ n: 1 });
    expect((await branch.latest())?.state).toEqual({ n: 11 });
    await sp.checkpoints.restore(report.before.id);
    expect((await session.latest())?.state).toEqual({ n: 2 });
    await sp.checkpoints.restore(side?.id ?? "");
    expect((await branch.latest())?.state).toEqual({ n: 10 });
    expect((await session.latest())?.state).toEqual({ n: 2 });
  });

  it("loads a conversation as it was at a checkpoint, also in pages", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await begin(sp, "c", "1", "2", "3", "4");
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await sp.conversations.save({ id: "c", title: "Other", messages: [message.user("9")] });
    const loaded = await sp.conversations.load("c", { at: id });
    expect(loaded).toMatchObject({ title: "1", messageCount: 4, first: 0, agent: AGENT });
    const page = await sp.conversations.load("c", { at: id, limit: 2, before: 3 });
    expect(page?.messages.map(({ content }) => content)).toEqual(["2", "3"]);
    expect(page?.first).toBe(1);
    await sp.conversations.delete("c");
    expect(await texts(sp, "c", id)).toEqual(["1", "2", "3", "4"]);
    expect(await sp.conversations.load("none", { at: id })).toBeUndefined();
    expect(await codeOf(sp.conversations.load("c", { at: "no" }))).toBe("CHECKPOINT_NOT_FOUND");
    const { id: ofSession } = await sp.session("s").save(1);
    expect(await codeOf(sp.conversations.load("c", { at: ofSession }))).toBe("CHECKPOINT_NOT_FOUND");
  });
});

describe.each(ALL_KINDS)("times after a restore on $name", (kind) => {
  const lab = useLab(kind);

  it("are those of the messages, and the agent's own is that of the restore", async () => {
    const sp = await lab.open();
    await saveAgent(sp, 1);
    const made = lab.now();
    await begin(sp, "c", "one");
    await begin(sp, "empty");
    lab.advance(1000);
    await talk(sp, "c", "two");
    await begin(sp, "deleted", "x");
    const last = lab.now();
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    lab.advance(1000);
    await talk(sp, "c", "three");
    await talk(sp, "empty", "y");
    await sp.conversations.delete("deleted");
    lab.advance(1000);
    await sp.checkpoints.restore(id);
    expect(await sp.conversations.load("c")).toMatchObject({ createdAt: made, lastMessageAt: last });
    expect(await sp.conversations.load("empty")).toMatchObject({ createdAt: made, lastMessageAt: made });
    expect(await sp.conversations.load("deleted")).toMatchObject({ createdAt: last, lastMessageAt: last });
    const { entries } = (await sp.conversations.load("c")) ?? {};
    expect(entries?.map(({ timestamp }) => timestamp)).toEqual([made, last]);
    expect(await sp.agents.load(AGENT)).toMatchObject({ createdAt: made, modifiedAt: lab.now() });
    lab.advance(1000);
    await talk(sp, "empty", "z");
    expect(await sp.conversations.load("empty")).toMatchObject({ lastMessageAt: lab.now(), title: "z" });
  });
});
