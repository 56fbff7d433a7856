/** A server that is confined to one agent reaches nothing that belongs to another agent or to none. */
import { describe, expect, it } from "vitest";
import { defineAgent, message, type Savepoint } from "../../src/index.js";
import { tapeName } from "../../src/records/index.js";
import { GENERATIONS, type TestClient } from "./clients.js";
import { useLab } from "./lab.js";

type Fields = Record<string, unknown>;

/** Must never be seen. Everything of other agents contains it. */
const SECRET = "SECRET";
/** What the confined server tries to answer. */
const SECRET_ANSWER = "yes";

/** A run of it waits for an answer. */
const asker = defineAgent({
  name: "other",
  initial: () => ({ answer: "" }),
  async step(run) {
    run.state.answer = await run.ask<string>(`${SECRET}?`);
    return run.complete(run.state.answer);
  },
});

/** Owners outside of the scope: another agent, and no agent. */
interface Foreign {
  readonly agentCheckpoint: string;
  readonly checkpoints: readonly string[];
}

async function fill(sp: Savepoint): Promise<Foreign> {
  const own = sp.session("mine", { agent: "me" });
  await sp.agents.save({ id: "me", name: "Me", state: { mine: true } });
  await own.save({ mine: 1 });
  await own.save({ mine: 2 });
  await sp.conversations.create({ id: "mine", agent: "me", messages: [message.user("my storm")] });
  await sp.agents.save({ id: "other", name: SECRET, systemPrompt: SECRET, state: { text: SECRET } });
  const said = { label: SECRET, resumeHint: SECRET, metadata: { text: SECRET } };
  const others = await sp.session("theirs", { agent: "other" }).save({ text: SECRET }, said);
  await sp.session("theirs").save({ text: SECRET, messages: [message.user(`${SECRET} storm`)] }, said);
  const nobody = await sp.session("nobodys").save({ text: SECRET }, said);
  const chosen = await sp.session("nobodys").save({ text: SECRET }, { ...said, id: "chosen" });
  await sp.conversations.create({ id: "theirs", agent: "other", messages: [message.user(`${SECRET} storm`)] });
  await sp.conversations.create({ id: "nobodys", messages: [message.user(`${SECRET} storm`)] });
  const { id: agentCheckpoint } = await sp.checkpoints.create({ agent: "other", label: SECRET });
  await sp.run(asker, { session: "asking", input: undefined });
  const places = ["theirs#0", "theirs#1", "nobodys#0"];
  return { agentCheckpoint, checkpoints: [others.id, nobody.id, chosen.id, agentCheckpoint, ...places] };
}

/** Everything that belongs to others, to check that nothing has changed. */
async function everythingOfOthers(sp: Savepoint): Promise<unknown> {
  const sessions = ["theirs", "nobodys", "asking"].map(async (id) => ({
    info: await sp.sessions.load(id),
    history: await sp.session(id).history({ allBranches: true }).all(),
    branches: await sp.session(id).branches().all(),
  }));
  const conversations = ["theirs", "nobodys"].map((id) => sp.conversations.load(id));
  return JSON.stringify([
    await sp.agents.load("other"),
    await Promise.all(sessions),
    await Promise.all(conversations),
    await sp.checkpoints.list({ agent: "other" }).all(),
  ]);
}

/** Every call that names something of others, and the same call for something that does not exist. */
function attacks({ checkpoints, agentCheckpoint }: Foreign): [string, Fields, Fields][] {
  const nothing = "nothing";
  const pairs: [string, Fields, Fields][] = [];
  const by = (tool: string, key: string, names: readonly string[], rest: Fields = {}): void => {
    for (const name of names) pairs.push([tool, { ...rest, [key]: name }, { ...rest, [key]: nothing }]);
  };
  const both = ["theirs", "nobodys"];
  by("agent_load", "id", ["other"]);
  by("agent_delete", "id", ["other"]);
  by("agent_save", "id", ["other"], { name: "taken" });
  by("checkpoint_create", "agent", ["other"]);
  by("conversation_load", "id", both);
  by("conversation_load", "id", both, { index: 0 });
  by("conversation_load", "at", [agentCheckpoint, ...checkpoints], { id: "theirs" });
  by("conversation_load", "at", [agentCheckpoint], { id: "mine" });
  by("conversation_delete", "id", both);
  by("conversation_list", "agent", ["other"]);
  by("conversation_search", "agent", ["other"], { text: "storm" });
  by("persistence_stats", "agent", ["other"]);
  by("run_answer", "session", ["asking", ...both], { answer: SECRET_ANSWER });
  by("run_answer", "session", ["asking"], { answer: SECRET_ANSWER, question: "q0", branch: "main" });
  by("session_list", "agent", ["other"]);
  by("session_search", "agent", ["other"], { text: "storm" });
  by("session_resume", "session", both);
  by("session_resume", "agent", ["other"]);
  by("session_resume", "session", both, { checkpoint: { seq: 0 } });
  by("session_resume", "session", both, { checkpoint: { label: SECRET }, partial: true });
  by("session_resume", "checkpoint", checkpoints, { session: "mine" });
  by("checkpoint_list", "session", both);
  by("checkpoint_list", "agent", ["other"]);
  by("checkpoint_restore", "id", checkpoints);
  by("checkpoint_restore", "id", checkpoints, { dryRun: true });
  by("checkpoint_delete", "id", checkpoints);
  by("checkpoint_diff", "session", both, { from: { seq: 0 } });
  by("checkpoint_diff", "from", checkpoints, { session: "mine" });
  by("checkpoint_diff", "to", checkpoints, { session: "mine", from: { seq: 0 } });
  by("checkpoint_fork", "session", both, { checkpoint: { seq: 0 } });
  by("checkpoint_fork", "checkpoint", checkpoints, { session: "mine" });
  by("checkpoint_fork", "checkpoint", checkpoints, { session: "mine", changes: [{ op: "add", path: "/x", value: 1 }] });
  return pairs;
}

/** The answer to a call without the requested name. */
async function answerTo(client: TestClient, tool: string, args: Fields): Promise<string> {
  const result = await client.raw(tool, args);
  let text = JSON.stringify([result.isError ?? false, result.content, result.structuredContent]);
  const names = Object.values(args).filter((value): value is string => typeof value === "string" && value !== "mine");
  // The longest first, because some are prefixes of others.
  names.sort((a, b) => b.length - a.length);
  for (const name of names) text = text.replaceAll(name, "…");
  return text;
}

describe.each(GENERATIONS)("a confined server, for $name", (generation) => {
  const lab = useLab(generation);

  it("things of other agents and missing things give the same answer, and no call changes them", async () => {
    const sp = await lab.open();
    const foreign = await fill(sp);
    const before = await everythingOfOthers(sp);
    const client = await lab.connect({ write: true, agent: "me" });
    for (const [tool, theirs, nothing] of attacks(foreign)) {
      const answer = await answerTo(client, tool, theirs);
      expect(answer, `${tool} ${JSON.stringify(theirs)}`).toBe(await answerTo(client, tool, nothing));
      expect(answer, tool).not.toContain(SECRET);
    }
    expect(await everythingOfOthers(sp)).toBe(before);
    // Nothing was created for the ids that do not exist.
    expect(await sp.agents.load("nothing")).toBeUndefined();
  });

  it("nothing is saved into what belongs to another agent or to no agent", async () => {
    const sp = await lab.open();
    await fill(sp);
    const before = await everythingOfOthers(sp);
    const client = await lab.connect({ write: true, agent: "me" });
    for (const id of ["theirs", "nobodys"]) {
      const saves: [string, Fields][] = [
        ["session_save", { session: id, state: 1 }],
        ["session_save", { session: id, state: 1, agent: "other" }],
        ["session_save", { session: id, changes: [{ op: "add", path: "/x", value: 1 }] }],
        ["session_save", { session: id, state: 1, after: "chosen" }],
        ["conversation_save", { id, messages: [message.user("hello")] }],
        ["conversation_save", { id, messages: [], mode: "replace" }],
        ["conversation_save", { id, title: "mine now" }],
        ["conversation_save", { id, agent: "other", title: "mine now" }],
      ];
      for (const [tool, args] of saves) {
        const { code, text } = await client.fail(tool, args);
        expect(code, text).toMatch(/^(SESSION|CONVERSATION|AGENT)_NOT_FOUND$/);
        expect(text).not.toContain(SECRET);
      }
    }
    expect((await client.fail("conversation_save", { agent: "other" })).code).toBe("AGENT_NOT_FOUND");
    expect((await client.fail("session_save", { session: "new", agent: "other", state: 1 })).code).toBe(
      "AGENT_NOT_FOUND",
    );
    expect(await everythingOfOthers(sp)).toBe(before);
  });

  it("lists, searches and counts contain only what belongs to its agent", async () => {
    const sp = await lab.open();
    await fill(sp);
    const client = await lab.connect({ write: true, agent: "me" });
    expect(await client.call("agent_list")).toMatchObject({ agents: [{ id: "me" }] });
    expect(await client.call("conversation_list")).toMatchObject({ conversations: [{ id: "mine" }] });
    expect(await client.call("conversation_search", { text: "storm" })).toMatchObject({
      hits: [{ conversation: "mine" }],
    });
    expect(await client.call("conversation_search", { text: SECRET })).toEqual({ hits: [], more: false });
    const { checkpoints } = await client.call<{ checkpoints: { session: string }[] }>("checkpoint_list");
    expect(checkpoints.map(({ session }) => session)).toEqual(["mine", "mine"]);
    expect((await client.call("session_resume", { project: "any" })).session).toBe("mine");
    // No session of this project: the candidates are those of its agent.
    expect(await client.call("session_resume")).toMatchObject({ candidates: [{ session: "mine" }] });
    expect(await client.call("session_list")).toMatchObject({ sessions: [{ session: "mine" }] });
    expect(await client.call("session_search", { text: "mine" })).toMatchObject({ hits: [{ session: "mine" }] });
    for (const text of [SECRET, "storm", "theirs", "nobodys", "asking"]) {
      expect(await client.call("session_search", { text }), text).toEqual({ hits: [], more: false });
    }
    expect(await client.call("persistence_stats")).toMatchObject({
      agent: "me",
      agents: 1,
      conversations: 1,
      messages: 1,
      sessions: 1,
      checkpoints: 2,
    });
  });

  it("the tools work on what belongs to its agent, and what they create belongs to it", async () => {
    const sp = await lab.open();
    await fill(sp);
    const client = await lab.connect({ write: true, agent: "me" });
    await client.call("session_save", { session: "new", state: { n: 1 } });
    const { checkpoint } = await client.call<{ checkpoint: { id: string } }>("session_save", {
      session: "new",
      state: { n: 2 },
    });
    await client.call("checkpoint_fork", { session: "new", checkpoint: { seq: 0 }, branch: "b" });
    await client.call("session_save", {
      session: "new",
      branch: "b",
      state: 3,
      after: (await sp.session("new", { branch: "b" }).head())?.id,
    });
    expect((await client.fail("session_save", { session: "new", branch: "x", state: 4 })).code).toBe(
      "BRANCH_NOT_FOUND",
    );
    expect((await client.fail("session_resume", { session: "new", branch: "x" })).code).toBe("BRANCH_NOT_FOUND");
    await client.call("checkpoint_restore", { id: "new#0" });
    await client.call("checkpoint_diff", { session: "new", from: checkpoint.id });
    await client.call("conversation_save", { id: "c", messages: [message.user("hello")] });
    await client.call("conversation_save", { id: "c", messages: [message.user("again")] });
    await client.call("conversation_save", { messages: [message.user("unnamed")] });
    await client.call("agent_save", { id: "me", state: { n: 1 } });
    await client.call("checkpoint_create", { label: "now" });
    expect(await sp.sessions.load("new")).toMatchObject({ agent: "me" });
    expect((await sp.conversations.list({ agent: "me" }).all()).map(({ messageCount }) => messageCount)).toEqual([
      1, 2, 1,
    ]);
    expect(await client.call("conversation_delete", { id: "c" })).toEqual({ deleted: true });
    expect(await client.call("agent_delete", { id: "me" })).toEqual({ deleted: true });
    expect(await sp.agents.load("other")).toBeDefined();
    expect(await sp.conversations.load("theirs")).toBeDefined();
  });

  it("resources and completions contain nothing of other agents", async () => {
    const sp = await lab.open();
    const { checkpoints } = await fill(sp);
    const client = await lab.connect({ agent: "me" });
    const resources = await client.resources();
    expect(JSON.stringify(resources)).not.toMatch(/SECRET|theirs|nobodys|other/);
    for (const { uri } of resources)
      expect(JSON.stringify(await client.read(uri)), uri).not.toMatch(/SECRET|theirs|nobodys/);
    const uris = [
      ...["theirs", "nobodys"].flatMap((id) => [
        `sessions/${id}`,
        `sessions/${id}/checkpoints/latest`,
        `sessions/${id}/checkpoints/${id}%230`,
        `conversations/${id}`,
      ]),
      ...checkpoints.flatMap((id) => [
        `checkpoints/${encodeURIComponent(id)}`,
        `sessions/mine/checkpoints/${encodeURIComponent(id)}`,
      ]),
      "agents/other",
    ];
    for (const uri of uris) {
      const { code, text } = await client.failToRead(`savepoint://${uri}`);
      expect(code, uri).toMatch(/_NOT_FOUND$/);
      expect(text).not.toContain(SECRET);
    }
    for (const kind of ["sessions", "conversations", "checkpoints", "agents"]) {
      const found = await client.complete(`savepoint://${kind}/{id}`, "id", "");
      expect(found.length, kind).toBeGreaterThan(0);
      expect(JSON.stringify(found), kind).not.toMatch(/theirs|nobodys|other|chosen/);
    }
    const template = "savepoint://sessions/{id}/checkpoints/{checkpoint}";
    expect(await client.complete(template, "checkpoint", "", { id: "mine" })).toHaveLength(2);
    expect(await client.complete(template, "checkpoint", "", { id: "theirs" })).toEqual([]);
  });

  it("damage is reported to the owner only", async () => {
    const sp = await lab.open();
    const messages = ["1", "2"].map((digit) => digit.repeat(3000));
    await sp.session("theirs", { agent: "other" }).save({ messages });
    await sp.session("mine", { agent: "me" }).save({ messages });
    await sp.close();
    for (const number of [0, 1]) await lab.damage({ kind: "item", tape: tapeName(number, 0), item: 0 });
    const client = await lab.connect({ write: true, agent: "me" });
    for (const [tool, key] of [
      ["session_resume", "session"],
      ["checkpoint_restore", "id"],
    ] as const) {
      const suffix = key === "id" ? "#0" : "";
      expect((await client.fail(tool, { [key]: `theirs${suffix}` })).code).toMatch(/_NOT_FOUND$/);
      expect((await client.fail(tool, { [key]: `mine${suffix}` })).code).toBe("DAMAGED");
    }
    expect(await client.call("checkpoint_delete", { id: "theirs#0" })).toEqual({ deleted: false });
  });

  it("a restore does not reveal which agent owns a conversation id", async () => {
    const sp = await lab.open();
    await sp.agents.save({ id: "me", name: "Me" });
    await sp.conversations.create({ id: "c", agent: "me", messages: [message.user("mine")] });
    const { id } = await sp.checkpoints.create({ agent: "me" });
    await sp.conversations.delete("c");
    await sp.conversations.create({ id: "c", agent: "other", messages: [message.user(SECRET)] });
    const client = await lab.connect({ write: true, agent: "me" });
    const { code, text } = await client.fail("checkpoint_restore", { id });
    expect(code).toBe("CONFLICT");
    expect(text).not.toContain("other");
    expect((await sp.conversations.load("c"))?.agent).toBe("other");
    // The agent owned it at that checkpoint, so it may be read.
    expect(await client.call("conversation_load", { id: "c", at: id })).toMatchObject({ messages: [{ index: 0 }] });
    expect((await client.fail("conversation_load", { id: "c" })).code).toBe("CONVERSATION_NOT_FOUND");
  });
});

describe("a confined server during concurrent changes", () => {
  const lab = useLab();

  it("a session that another agent created in the meantime is neither saved into nor shown", async () => {
    const sp = await lab.open();
    // In its own process, so that both really run at the same time.
    const client = await lab.spawn({ write: true, agent: "me" });
    let over = false;
    const results: string[] = [];
    const attack = async (tool: string, args: Fields): Promise<void> => {
      while (!over) {
        const { isError, content } = await client.raw(tool, args);
        results.push(`${tool} ${isError ? "failed" : "worked"}`);
        expect(content[0]?.text).not.toContain(SECRET);
      }
    };
    const attacks = [
      attack("session_save", { session: "x", state: { by: "me" } }),
      attack("session_save", { session: "x", changes: [{ op: "add", path: "/by", value: "me" }] }),
      attack("checkpoint_fork", { session: "x", checkpoint: { seq: 0 }, state: { by: "me" } }),
      attack("session_resume", { session: "x" }),
      attack("checkpoint_list", { session: "x" }),
    ];
    const foreign: unknown[] = [];
    // How often they collide depends on the machine: a busy one needs more rounds.
    const haveMet = (): boolean =>
      foreign.length > 10 && results.includes("session_save worked") && results.includes("session_save failed");
    for (let round = 0; round < 60 || (round < 1000 && !haveMet()); round++) {
      const agent = round % 2 === 0 ? { agent: "other" } : {};
      await sp.sessions.delete("x");
      const theirs = sp.session("x", agent);
      // If the confined server was first, it owns the session, and what it saves there is hidden from others.
      const first = (await theirs.head()) === undefined;
      const made = first ? await theirs.save({ by: SECRET, text: SECRET }).catch(() => undefined) : undefined;
      if (made && made.agent !== "me") {
        await new Promise((resolve) => setTimeout(resolve, 3));
        for await (const { id } of theirs.history({ allBranches: true })) {
          foreign.push((await theirs.load(id))?.state);
        }
      }
      await sp.sessions.delete("x");
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
    over = true;
    await Promise.all(attacks);
    expect(foreign.length).toBeGreaterThan(10);
    for (const state of foreign) expect(state).toEqual({ by: SECRET, text: SECRET });
    expect(new Set(results)).toContain("session_save worked");
    expect(new Set(results)).toContain("session_save failed");
  });
});
