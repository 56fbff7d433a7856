/** Output of the verbs that read: text, and the JSON shapes that programs rely on. */
import { describe, expect, it } from "vitest";
import { defineAgent, message, type Savepoint } from "../../src/index.js";
import { errorOf, linesOf, withoutAges } from "./command.js";
import { createPlace, useFilledPlace } from "./place.js";

const NOTHING = [
  ["sessions"],
  ["sessions", "--status", "waiting"],
  ["log"],
  ["log", "--graph"],
  ["search", "x"],
  ["agents"],
  ["conversations"],
];

describe.concurrent("an empty store", () => {
  const place = useFilledPlace(async () => {});

  it.each(NOTHING.map((args) => [args.join(" "), args] as const))(
    "%s prints no data and a note that there is none",
    async (_, args) => {
      const text = await place().on(args);
      expect({ ...text, stderr: linesOf(text.stderr).length }).toEqual({ stdout: "", stderr: 1, code: 0 });
      expect((await place().on([...args, "-q"])).stderr).toBe("");
      const json = await place().on([...args, "--json"]);
      expect(json).toEqual({ stdout: "[]\n", stderr: "", code: 0 });
      expect(await place().on([...args, "--jsonl"])).toEqual({ stdout: "", stderr: "", code: 0 });
    },
  );

  it("stats counts zero of everything", async () => {
    const { store, bytes, ...rest } = await place().json(["stats"]);
    expect(store).toBe(place().url);
    expect(bytes).toBeGreaterThan(0);
    expect(rest).toEqual({ agents: 0, checkpoints: 0, conversations: 0, messages: 0, sessions: 0, byStatus: {} });
  });

  it.each(["show s", "diff s", "log s", "journal s", "agents a", "conversations c", "watch s"])(
    "%s exits with 4 and prints no data",
    async (line) => {
      const ended = await place().on([...line.split(" "), "--json"]);
      expect(ended.code).toBe(4);
      expect(errorOf(ended)).toMatchObject({ code: "NOT_FOUND" });
    },
  );
});

/** Two agents, sessions of every status, branches and conversations. */
async function fillAll(sp: Savepoint): Promise<void> {
  await sp.agents.save({
    id: "support",
    name: "Support",
    type: "chat",
    systemPrompt: "Be kind.",
    capabilities: ["mail"],
    config: { model: "m" },
    state: { mood: "good", when: new Date(0) },
  });
  await sp.agents.save({ id: "shop", name: "Shop", state: {} });
  await sp.conversations.create({
    id: "c1",
    agent: "support",
    title: "About the refund",
    tags: ["vip"],
    messages: [message.user("I want a refund"), message.assistant("Here it is")],
  });
  await sp.conversations.create({ id: "c2", messages: [message.user("Unrelated")] });
  await sp.conversations.archive("c2");
  const session = sp.session("order", { agent: "shop" });
  await session.save({ n: 0, list: [1] }, { id: "o-first1", label: "start" });
  await session.save(
    { n: 1, list: [1, 2] },
    { id: "o-second", metadata: { why: "because" }, usage: { tokens: 7, cost: 0.5 } },
  );
  const side = await session.fork("o-first1", { branch: "side" });
  await side.save({ n: 5, list: [] }, { id: "o-side00", pinned: true });
  await session.save({ n: 2, list: [1, 2, 3], messages: [message.user("refund, please")] }, { id: "o-third0" });
  await sp.session("done").save({}, { status: "completed" });
  await sp.session("broken").save({}, { status: "failed", reason: "no money" });
  const asker = defineAgent({
    name: "asker",
    initial: () => ({ answer: "" }),
    async step(run) {
      await run.tool({ id: "t1", name: "look", arguments: { at: "it" } }, async () => ({ seen: true }));
      run.state.answer = String(await run.ask("May I?"));
      return run.complete(run.state.answer);
    },
  });
  await sp.run(asker, { session: "asks", input: undefined as never });
}

describe.concurrent("sessions", () => {
  const place = useFilledPlace(fillAll);

  it("sessions are listed newest first with their status", async () => {
    const text = withoutAges(await place().text(["sessions"]));
    expect(linesOf(text)).toEqual([
      "SESSION  AGENT  STATUS     STEP  UPDATED",
      "asks     asker  waiting       1  0s ago  asks: May I?",
      "broken          failed        0  0s ago  no money",
      "done            completed     0  0s ago",
      "order    shop   open          2  0s ago",
    ]);
  });

  it("--json and --jsonl print the same session objects", async () => {
    const all = await place().json(["sessions"]);
    expect(all.map(({ id }: { id: string }) => id)).toEqual(["asks", "broken", "done", "order"]);
    expect(await place().jsonl(["sessions"])).toEqual(all);
    expect(all[0]).toMatchObject({ agent: "asker", status: "waiting", questions: [{ text: "May I?" }] });
    expect(all[1]).toMatchObject({ status: "failed", reason: "no money", questions: [] });
    expect(all[3]).toEqual({
      id: "order",
      agent: "shop",
      createdAt: expect.any(Number),
      updatedAt: expect.any(Number),
      status: "open",
      questions: [],
      checkpoints: 4,
      head: expect.objectContaining({ id: "o-third0", seq: 3, step: 2, branch: "main" }),
    });
  });

  it("--agent, --status and --limit filter the list", async () => {
    const ids = async (...args: string[]): Promise<string[]> =>
      (await place().jsonl(["sessions", ...args])).map(({ id }: { id: string }) => id);
    expect(await ids("--agent", "shop")).toEqual(["order"]);
    expect(await ids("--agent", "nobody")).toEqual([]);
    expect(await ids("--status", "completed")).toEqual(["done"]);
    expect(await ids("-n", "2")).toEqual(["asks", "broken"]);
    expect(await ids("--limit", "0")).toEqual([]);
    expect(await ids("--status", "failed", "--agent", "shop")).toEqual([]);
  });
});

describe.concurrent("log", () => {
  const place = useFilledPlace(fillAll);

  it("log lists the checkpoints that led to the head of main", async () => {
    expect(linesOf(withoutAges(await place().text(["log", "order"])))).toEqual([
      "session order  shop  open  0s ago",
      "o-third0  #3  step 2  open  0s ago  (main)",
      "o-second  #1  step 1  open  0s ago",
      'o-first1  #0  step 0  open  0s ago  "start"',
    ]);
  });

  it("--graph draws all branches", async () => {
    expect(linesOf(withoutAges(await place().text(["log", "order", "--graph"])))).toEqual([
      "session order  shop  open  0s ago",
      "*  o-third0  #3  step 2  open  0s ago  (main)",
      "| *  o-side00  #2  step 1  open  0s ago  (side)  pinned",
      "* |  o-second  #1  step 1  open  0s ago",
      "|/",
      '*  o-first1  #0  step 0  open  0s ago  "start"',
    ]);
  });

  it("--branch, --all, --oldest and --limit select the checkpoints", async () => {
    const seqs = async (...args: string[]): Promise<number[]> =>
      (await place().jsonl(["log", "order", ...args])).map(({ seq }: { seq: number }) => seq);
    expect(await seqs()).toEqual([3, 1, 0]);
    expect(await seqs("--branch", "side")).toEqual([2, 0]);
    expect(await seqs("--all")).toEqual([3, 2, 1, 0]);
    expect(await seqs("--graph")).toEqual([3, 2, 1, 0]);
    expect(await seqs("--oldest")).toEqual([0, 1, 3]);
    expect(await seqs("--all", "--oldest", "-n", "2")).toEqual([0, 1]);
    expect(await seqs("-n", "0")).toEqual([]);
  });

  it("--since lists only the checkpoints since a time, of one session or of all", async (context) => {
    const own = createPlace(context);
    const age = { hours: 0 };
    const sp = await own.open(own.url, { now: () => Date.now() - age.hours * 3_600_000 });
    const saves = [
      ["old", 50],
      ["both", 49],
      ["both", 3],
      ["both", 1],
      ["new", 1],
    ] as const;
    for (const [session, hours] of saves) {
      age.hours = hours;
      await sp.session(session).save({ hours });
    }
    const listed = async (...args: string[]): Promise<string[]> =>
      (await own.jsonl(["log", ...args])).map(({ sessionId, seq }) => `${sessionId}#${seq}`);
    expect(await listed("both", "--since", "2h")).toEqual(["both#2"]);
    expect(await listed("both", "--since", "1d")).toEqual(["both#2", "both#1"]);
    expect(await listed("both", "--since", "1d", "--oldest", "-n", "1")).toEqual(["both#1"]);
    expect(await listed("both", "--since", "1d", "-n", "1")).toEqual(["both#2"]);
    expect(await listed("--since", "1d")).toEqual(["new#0", "both#2", "both#1"]);
    expect(await listed("--since", new Date(Date.now() + 3_600_000).toISOString())).toEqual([]);
    expect(await own.text(["log", "--since", "2h"])).not.toContain("old");
    expect((await own.fail(["log", "--since", "soon"], 2)).message).toContain("2026-01-31");
  });

  it("log without a session lists all sessions, and --limit counts checkpoints of all of them", async () => {
    const listed = await place().json(["log"]);
    expect(listed.map(({ sessionId, seq }: { sessionId: string; seq: number }) => `${sessionId}#${seq}`)).toEqual([
      "asks#1",
      "asks#0",
      "broken#0",
      "done#0",
      "order#3",
      "order#1",
      "order#0",
    ]);
    expect(await place().json(["log", "-n", "4"])).toEqual(listed.slice(0, 4));
    const text = linesOf(await place().text(["log", "-n", "4"]));
    expect(text.filter((line) => line.startsWith("session "))).toHaveLength(3);
    expect(text.filter((line) => line.includes("  #"))).toHaveLength(4);
  });

  it("--json prints every field of a checkpoint except its state", async () => {
    const [, second] = await place().json(["log", "order"]);
    expect(second).toEqual({
      id: "o-second",
      sessionId: "order",
      agent: "shop",
      branch: "main",
      seq: 1,
      step: 1,
      parentId: "o-first1",
      parentSeq: 0,
      createdAt: expect.any(Number),
      kind: "manual",
      status: "open",
      tasksCompleted: 0,
      usage: { tokens: 7, cost: 0.5 },
      metadata: { why: "because" },
      pinned: false,
      stateBytes: expect.any(Number),
      storedBytes: expect.any(Number),
    });
  });

  it("a branch that does not exist exits with 4", async () => {
    expect((await place().on(["log", "order", "--branch", "nope"])).code).toBe(4);
  });

  it("--graph cannot be combined with --oldest", async () => {
    const { code } = await place().on(["log", "order", "--graph", "--oldest"]);
    expect(code).toBe(2);
  });
});

describe.concurrent("branches in the log", () => {
  it("branches are drawn if some of their checkpoints were deleted", async (test) => {
    const place = await createPlace(test).fill(async (sp) => {
      const session = sp.session("s");
      const save = (id: string, parent?: string) => session.save({ id }, { id, ...(parent && { parent }) });
      for (const id of ["r", "a", "b"]) await save(id);
      await save("x1", "r");
      await save("x2", "x1");
      await save("c");
      await save("x3", "x2");
      for (const id of ["b", "x1"]) await sp.checkpoints.delete(id);
    });
    const lines = linesOf(await place.text(["log", "s", "--graph"])).slice(1);
    expect(lines.map((line) => line.replace(/ {2}#.*/, ""))).toEqual([
      "*  x3",
      "| *  c",
      "* |  x2",
      "| *  a",
      "|/",
      "*  r",
    ]);
  });

  it("nested and crossing branches are drawn, each name at its head", async (test) => {
    const place = await createPlace(test).fill(async (sp) => {
      const main = sp.session("s");
      await main.save(0, { id: "a" });
      await main.save(1, { id: "b" });
      const one = await main.fork("a", { branch: "one" });
      await one.save(2, { id: "x" });
      const two = await one.fork("x", { branch: "two" });
      await one.save(3, { id: "y" });
      await main.save(4, { id: "c" });
      await two.save(5, { id: "z" });
      await main.fork("c", { branch: "same" });
      const three = await main.fork("b", { branch: "three" });
      await three.save(6, { id: "w" });
    });
    const lines = linesOf(await place.text(["log", "s", "--graph"])).slice(1);
    expect(lines.map((line) => line.replace(/ {2}#.*ago( {2})?/, " "))).toEqual([
      "*  w (three)",
      "| *  z (two)",
      "| | *  c (main, same)",
      "| | | *  y (one)",
      "| |_|/",
      "| * |  x ",
      "|_|/",
      "* |  b ",
      "|/",
      "*  a ",
    ]);
  });

  it("--limit applies to the graph", async (test) => {
    const place = await createPlace(test).fill(async (sp) => {
      const session = sp.session("s");
      for (let n = 0; n < 5; n++) await session.save({ n });
    });
    expect(linesOf(await place.text(["log", "s", "--graph", "-n", "2"]))).toHaveLength(3);
  });
});

describe.concurrent("show", () => {
  const place = useFilledPlace(fillAll);

  it("show prints the fields of a checkpoint, then its state", async () => {
    const [head = "", state = ""] = (await place().text(["show", "o-second"])).split("\n\n");
    expect(head).toMatch(
      /^checkpoint {2}o-second\nsession {5}order #1\nagent {7}shop\nbranch {6}main\nparent {6}o-first1\n/,
    );
    expect(head).toContain("\nused        7 tokens, cost 0.5\n");
    expect(head).toContain('\nmetadata    {"why":"because"}\n');
    expect(JSON.parse(state)).toEqual({ n: 1, list: [1, 2] });
  });

  it("--json prints the checkpoint with its state", async () => {
    const shown = await place().json(["show", "order"]);
    const [info] = await place().json(["log", "order"]);
    expect(shown).toEqual({
      ...info,
      state: { n: 2, list: [1, 2, 3], messages: [expect.objectContaining({ content: "refund, please" })] },
      pendingToolCalls: [],
      holes: [],
      skipped: [],
    });
    expect(await place().jsonl(["show", "order"])).toEqual([shown]);
    expect(await place().json(["show", "order", "--info"])).toEqual(info);
  });

  it("--info omits the state", async () => {
    expect(await place().text(["show", "order", "--info"])).not.toContain("refund");
  });

  it("a JSON pointer prints a part of the state as JSON in every format", async () => {
    expect(await place().text(["show", "order:/list"])).toBe("[\n  1,\n  2,\n  3\n]\n");
    expect(await place().jsonl(["show", "order:/list"])).toEqual([[1, 2, 3]]);
    expect(await place().text(["show", "order:/messages/0/content"])).toBe('"refund, please"\n');
  });
});

describe.concurrent("diff", () => {
  const place = useFilledPlace(fillAll);

  it("diff prints the changes from one checkpoint to another", async () => {
    expect(await place().text(["diff", "order#0", "o-second"])).toBe("/n\n  - 0\n  + 1\n/list/1\n  + 2\n");
    expect(await place().json(["diff", "order#0", "o-second"])).toEqual([
      { op: "replace", path: "/n", before: 0, value: 1 },
      { op: "add", path: "/list/1", value: 2 },
    ]);
    expect(await place().jsonl(["diff", "o-second", "order#0"])).toContainEqual({
      op: "remove",
      path: "/list/1",
      before: 2,
    });
  });

  it("diff compares a single checkpoint with its parent", async () => {
    expect(await place().json(["diff", "order#1"])).toEqual(await place().json(["diff", "order#0", "order#1"]));
  });

  it("--stat counts changes for each key of the state", async () => {
    expect(await place().text(["diff", "order#0", "order#1", "--stat"])).toBe(
      "/n     +0 -0 ~1\n/list  +1 -0 ~0\n2 changes\n",
    );
    expect(await place().json(["diff", "order#0", "order#1", "--stat"])).toEqual([
      { path: "/n", added: 0, removed: 0, replaced: 1 },
      { path: "/list", added: 1, removed: 0, replaced: 0 },
    ]);
  });

  it("--stat --jsonl prints one object per key", async () => {
    const stats = await place().json(["diff", "order#0", "order#1", "--stat"]);
    expect(await place().jsonl(["diff", "order#0", "order#1", "--stat"])).toEqual(stats);
  });

  it("--exit-code exits with 1 if the states differ and with 0 if not", async () => {
    expect(await place().on(["diff", "order#0", "order#1", "--exit-code", "-q"])).toMatchObject({
      code: 1,
      stderr: "",
    });
    expect(await place().on(["diff", "order", "order", "--exit-code", "-q"])).toEqual({
      stdout: "",
      stderr: "",
      code: 0,
    });
    expect(await place().on(["diff", "order", "order", "--exit-code", "--json"])).toEqual({
      stdout: "[]\n",
      stderr: "",
      code: 0,
    });
    expect((await place().on(["diff", "order", "order"])).stderr).toBe("No differences.\n");
    expect(await place().text(["diff", "order#0", "order#1"])).not.toBe("");
  });

  it("--stat prints nothing if the states do not differ", async () => {
    expect(await place().json(["diff", "order", "order", "--stat"])).toEqual([]);
    expect((await place().on(["diff", "order", "order", "--stat"])).stdout).toBe("");
  });

  it("a pointer restricts the comparison to a part of the state", async () => {
    expect(await place().json(["diff", "order#0", "order#1:/list"])).toEqual([
      { op: "add", path: "/list/1", value: 2 },
    ]);
    expect(await place().json(["diff", "order#1:/n"])).toHaveLength(1);
    expect(await place().json(["diff", "order#1:/li"])).toEqual([]);
  });

  it("a pointer in the first name is used as well", async () => {
    expect(await place().json(["diff", "order#0:/list", "order#1"])).toEqual([
      { op: "add", path: "/list/1", value: 2 },
    ]);
  });

  it("diff reports the removal of a part if its parent was replaced", async (test) => {
    const own = await createPlace(test).fill(async (sp) => {
      await sp.session("s").save({ a: { b: 1 } });
      await sp.session("s").save({ a: 5 });
    });
    expect((await own.on(["diff", "s:/a/b", "--exit-code"])).code).toBe(1);
  });

  it("checkpoints of two sessions cannot be compared", async () => {
    const ended = await place().on(["diff", "order", "done", "--json"]);
    expect(ended.code).toBe(2);
    expect(errorOf(ended).code).toBe("USAGE");
  });

  it("the first checkpoint of a session is reported as added", async (test) => {
    const own = await createPlace(test).fill((sp) => sp.session("s").save({ a: 1 }));
    expect(await own.json(["diff", "s"])).toEqual([{ op: "add", path: "", value: { a: 1 } }]);
  });
});

describe.concurrent("search, agents and conversations", () => {
  const place = useFilledPlace(fillAll);

  it("search finds text in conversations and states and reports where", async () => {
    const hits = await place().json(["search", "REFUND"]);
    expect(hits).toHaveLength(2);
    expect(hits).toContainEqual(
      expect.objectContaining({
        source: "session",
        id: "order",
        branch: "main",
        path: "/messages/0",
        snippet: "refund, please",
      }),
    );
    expect(hits).toContainEqual(expect.objectContaining({ source: "conversation", id: "c1", role: "user" }));
    expect(await place().jsonl(["search", "REFUND"])).toEqual(hits);
    const text = linesOf(await place().text(["search", "refund", "--role", "user"]));
    expect(text[0]).toMatch(/^IN +WHERE +ROLE +WHEN +TEXT$/);
    expect(text.slice(1).some((line) => line.includes("order:/messages/0"))).toBe(true);
  });

  it("search finds nothing for text that does not occur, and treats special characters literally", async () => {
    for (const text of ["%", "*", "ref_nd", "zzz", '"', "' OR 1=1"])
      expect(await place().json(["search", text])).toEqual([]);
  });

  it("search filters by agent, role, tag, time and limit", async () => {
    const ids = async (...args: string[]): Promise<string[]> =>
      (await place().jsonl(["search", "refund", ...args])).map(({ id }: { id: string }) => id);
    expect(await ids("--agent", "support")).toEqual(["c1"]);
    expect(await ids("--role", "assistant")).toEqual([]);
    expect(await ids("--tag", "vip")).toEqual(["c1"]);
    expect(await ids("--tag", "vip", "--tag", "other")).toEqual([]);
    expect(await ids("--since", "1h", "--tag", "vip")).toEqual(["c1"]);
    expect(await ids("--since", "2999-01-01")).toEqual([]);
    expect(await ids("-n", "1")).toHaveLength(1);
    expect(await ids("-n", "0")).toEqual([]);
  });

  it("agents lists agents, or prints one", async () => {
    const listed = await place().json(["agents"]);
    expect(listed.map(({ id }: { id: string }) => id).sort()).toEqual(["shop", "support"]);
    expect(await place().jsonl(["agents", "-n", "1"])).toEqual([listed[0]]);
    expect(await place().json(["agents", "support"])).toMatchObject({
      id: "support",
      systemPrompt: "Be kind.",
      capabilities: ["mail"],
      config: { model: "m" },
      activeConversations: ["c1"],
      state: { mood: "good", when: { $date: "1970-01-01T00:00:00.000Z" } },
    });
    const text = await place().text(["agents", "support"]);
    expect(text).toContain("prompt        Be kind.\n");
    expect(text).toContain("conversations 1 active\n");
    expect((await place().on(["agents", "nobody"])).code).toBe(4);
  });

  it("conversations lists conversations, or prints one", async () => {
    const ids = async (...args: string[]): Promise<string[]> =>
      (await place().jsonl(["conversations", ...args])).map(({ id }: { id: string }) => id).sort();
    expect(await ids()).toEqual(["c1", "c2"]);
    expect(await ids("--archived")).toEqual(["c2"]);
    expect(await ids("--no-archived")).toEqual(["c1"]);
    expect(await ids("--tag", "vip")).toEqual(["c1"]);
    expect(await ids("--agent", "support", "--since", "1d")).toEqual(["c1"]);
    expect(await ids("-n", "0")).toEqual([]);
    expect(await place().json(["conversations", "c1"])).toMatchObject({
      id: "c1",
      title: "About the refund",
      messageCount: 2,
      messages: [{ role: "user", content: "I want a refund" }, { role: "assistant" }],
      first: 0,
    });
    expect(await place().json(["conversations", "c1", "-n", "1"])).toMatchObject({
      first: 1,
      messages: [{ role: "assistant" }],
    });
    expect(await place().text(["conversations", "c1"])).toMatch(
      /^About the refund\nc1 {2}support {2}2 messages {2}#vip\n\n0 {2}user {2}\S+ \S+Z\n {4}I want a refund\n\n1 {2}assistant .*\n {4}Here it is\n$/,
    );
    expect((await place().on(["conversations", "c9"])).code).toBe(4);
  });

  it("stats counts the contents of the store, or of one agent", async () => {
    expect(await place().json(["stats"])).toMatchObject({
      agents: 2,
      conversations: 2,
      messages: 3,
      sessions: 4,
      checkpoints: 8,
    });
    expect(await place().json(["stats", "--agent", "support"])).toMatchObject({
      agents: 1,
      conversations: 1,
      messages: 2,
      sessions: 0,
    });
    expect(linesOf(await place().text(["stats"]))).toHaveLength(6);
  });
});

describe.concurrent("journal", () => {
  const place = useFilledPlace(fillAll);

  it("journal lists the effects of a session, and marks those of the current step", async () => {
    const listed = await place().json(["journal", "asks"]);
    expect(listed).toMatchObject([
      {
        index: 0,
        kind: "tool",
        name: "look",
        callId: "t1",
        arguments: { at: "it" },
        outcome: "recorded",
        value: { seen: true },
      },
      { index: 1, kind: "ask", outcome: "running" },
    ]);
    expect(await place().jsonl(["journal", "asks"])).toEqual(listed);
    const [, look = "", ask = "", mark = "", total = ""] = linesOf(await place().text(["journal", "asks"]));
    expect(look).toMatch(/^1\.0 \* +[\d:]{8} +\d+ ms +look\(\{"at":"it"\}\) +\{"seen":true\}$/);
    expect(ask).toMatch(/^1\.1 \* .*waits for an answer$/);
    expect(mark).toBe("* belongs to the current step, which has not ended");
    expect(total).toMatch(/^Total: 2 effects, 1 tool call, /);
  });

  it("journal limits the list to the newest effects or to a step, and prints complete values with --full", async () => {
    expect(await place().json(["journal", "asks", "--limit", "1"])).toMatchObject([{ kind: "ask" }]);
    expect(await place().json(["journal", "asks", "--step", "9"])).toEqual([]);
    expect(await place().text(["journal", "asks", "--full"])).toContain('"seen": true');
  });

  it("journal prints nothing for a session without effects", async () => {
    expect(await place().on(["journal", "order"])).toMatchObject({ stdout: "", code: 0 });
    expect(await place().json(["journal", "order"])).toEqual([]);
  });

  it("a branch that does not exist exits with 4", async () => {
    expect((await place().on(["journal", "asks", "--branch", "nope"])).code).toBe(4);
  });
});

describe("a list that is longer than the rows its columns are measured by", () => {
  const long = "a label that is longer than all that come before it";
  const place = useFilledPlace(async (sp) => {
    await sp.session("first").save({}, { label: long });
    for (let n = 0; n < 60; n++) await sp.session(`s${n}`).save({}, { label: "short" });
  });

  it("a long cell is not truncated if the output is not a terminal", async () => {
    expect(await place().text(["sessions"])).toContain(long);
  });

  it("--jsonl prints every entry", async () => {
    expect(await place().jsonl(["sessions"])).toHaveLength(61);
  });
});
