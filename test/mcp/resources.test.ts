/** Resources: fixed ones, templates, lists and completions, for ids with any characters. */
import { describe, expect, it } from "vitest";
import { message } from "../../src/index.js";
import { toUri } from "../../src/mcp/resources/discovery.js";
import { GENERATIONS } from "./clients.js";
import { useLab } from "./lab.js";

/** Ids that are problematic in a URI, in a path, in SQL, or if a program splits them. */
const HOSTILE = [
  "a/b",
  "../../etc/passwd",
  ".",
  "..",
  "~.",
  "~..",
  "~",
  "%2F",
  "100%",
  "a b+c",
  "a,b;c",
  "?x=1&y#z",
  "s#0",
  "{id}",
  "'; DROP TABLE records; --",
  "日本語/🦊",
  "Ünï",
  "\u202Eevil",
  "__proto__",
  "constructor",
  "latest",
  "x".repeat(1024),
];

describe.each(GENERATIONS)("resources, for $name", (generation) => {
  const lab = useLab(generation);

  it("the lists, the counts and the things in them can be read", async () => {
    const sp = await lab.open();
    await sp.agents.save({ id: "a", name: "Ann", systemPrompt: "Be kind.", state: { solved: 1 } });
    await sp.conversations.create({ id: "c", agent: "a", messages: [message.user("Hello")] });
    const session = sp.session("s", { agent: "a" });
    await session.save({ n: 1 }, { label: "first" });
    const second = await session.save({ n: 2 }, { resumeHint: "Go on." });
    const whole = await sp.checkpoints.create({ agent: "a", label: "all" });
    const client = await lab.connect({});

    expect((await client.templates()).sort()).toEqual([
      "savepoint://agents/{id}",
      "savepoint://checkpoints/{id}",
      "savepoint://conversations/{id}",
      "savepoint://sessions/{id}",
      "savepoint://sessions/{id}/checkpoints/{checkpoint}",
    ]);
    const listed = (await client.resources()).map(({ uri }) => uri);
    for (const name of ["sessions", "conversations", "agents", "stats"])
      expect(listed).toContain(`savepoint://${name}`);
    for (const uri of listed) await client.read(uri);
    expect(listed).toEqual(
      expect.arrayContaining([toUri("sessions", "s"), toUri("conversations", "c"), toUri("agents", "a")]),
    );
    expect(listed).toContain(toUri("checkpoints", second.id));

    expect(await client.read("savepoint://sessions")).toMatchObject({
      sessions: [{ id: "s", agent: "a", status: "open", newest: { id: second.id, resumeHint: "Go on." } }],
    });
    expect(await client.read("savepoint://conversations")).toMatchObject({
      conversations: [{ id: "c", title: "Hello" }],
    });
    expect(await client.read("savepoint://agents")).toMatchObject({ agents: [{ id: "a", name: "Ann" }] });
    expect(await client.read("savepoint://stats")).toMatchObject({
      agents: 1,
      conversations: 1,
      sessions: 1,
      checkpoints: 3,
    });
    expect(await client.read("savepoint://sessions/s")).toMatchObject({
      session: { id: "s" },
      checkpoints: [{ id: second.id }, { label: "first" }],
    });
    for (const name of ["latest", second.id, "s%231"]) {
      expect(await client.read(`savepoint://sessions/s/checkpoints/${name}`)).toMatchObject({ state: { n: 2 } });
    }
    expect(await client.read("savepoint://conversations/c")).toMatchObject({
      messages: [{ message: { content: "Hello" } }],
    });
    expect(await client.read(toUri("checkpoints", second.id))).toMatchObject({
      state: { n: 2 },
      checkpoint: { seq: 1 },
    });
    expect(await client.read(toUri("checkpoints", whole.id))).toMatchObject({
      checkpoint: { label: "all", agent: "a" },
      state: { name: "Ann", state: { solved: 1 } },
      conversations: [{ id: "c" }],
    });
    expect(await client.read("savepoint://agents/a")).toMatchObject({
      content: { systemPrompt: "Be kind.", state: { solved: 1 } },
    });
  });

  it("resources and tools accept ids with any characters", async () => {
    const client = await lab.connect();
    for (const id of HOSTILE) {
      await client.call("session_save", { session: id, state: { id } });
      await client.call("conversation_save", { id, messages: [message.user(id)] });
      await client.call("agent_save", { id, state: { id } });
    }
    for (const id of HOSTILE) {
      expect((await client.call("session_resume", { session: id })).state, id).toEqual({ id });
      expect(await client.call("conversation_load", { id }), id).toMatchObject({
        messages: [{ message: { content: id } }],
      });
      expect(await client.read(toUri("sessions", id)), id).toMatchObject({ session: { id } });
      expect(await client.read(toUri("sessions", id, "checkpoints", "latest")), id).toMatchObject({ state: { id } });
      expect(await client.read(toUri("sessions", id, "checkpoints", `${id}#0`)), id).toMatchObject({ state: { id } });
      expect(await client.read(toUri("conversations", id)), id).toMatchObject({ conversation: { id } });
      expect(await client.read(toUri("agents", id)), id).toMatchObject({ content: { state: { id } } });
    }
    const listed = (await client.resources()).map(({ uri }) => uri);
    expect(listed).toEqual(expect.arrayContaining(HOSTILE.map((id) => toUri("conversations", id))));
    const { conversations } = await client.call<{ conversations: { id: string }[] }>("conversation_list", {
      limit: 200,
    });
    expect(conversations.map(({ id }) => id)).toEqual(HOSTILE.slice().reverse());
    const { agents } = await client.call<{ agents: { id: string }[] }>("agent_list", { limit: 200 });
    expect(agents.map(({ id }) => id).sort()).toEqual(HOSTILE.slice().sort());
  });

  it("ids are completed from what was typed", async () => {
    const sp = await lab.open();
    for (const id of ["order-1", "order-2", "trip-1"]) {
      await sp.session(id).save({});
      await sp.conversations.create({ id });
      await sp.agents.save({ id, name: id });
    }
    const client = await lab.connect({});
    for (const kind of ["sessions", "conversations", "agents"]) {
      const found = await client.complete(`savepoint://${kind}/{id}`, "id", "order");
      expect(found.sort(), kind).toEqual(["order-1", "order-2"]);
    }
    expect(await client.complete("savepoint://checkpoints/{id}", "id", "")).toHaveLength(3);
    const template = "savepoint://sessions/{id}/checkpoints/{checkpoint}";
    const head = await sp.session("trip-1").head();
    expect(await client.complete(template, "id", "t")).toEqual(["trip-1"]);
    expect(await client.complete(template, "checkpoint", "", { id: "trip-1" })).toEqual([head?.id]);
    expect(await client.complete(template, "checkpoint", "", { id: "tri" })).toEqual([]);
  });

  it("resources/list contains the newest of many, and a missing resource fails with a code", async () => {
    const sp = await lab.open();
    for (let n = 0; n < 60; n++) await sp.conversations.create({ id: `c${n}` });
    const client = await lab.connect({});
    const listed = (await client.resources()).filter(({ uri }) => uri.startsWith("savepoint://conversations/"));
    expect(listed).toHaveLength(50);
    expect(listed[0]?.uri).toBe("savepoint://conversations/c59");
    const missing = [
      ["savepoint://sessions/x", "SESSION_NOT_FOUND"],
      ["savepoint://sessions/x/checkpoints/latest", "SESSION_NOT_FOUND"],
      ["savepoint://conversations/x", "CONVERSATION_NOT_FOUND"],
      ["savepoint://checkpoints/x", "CHECKPOINT_NOT_FOUND"],
      ["savepoint://agents/x", "AGENT_NOT_FOUND"],
      ["savepoint://agents/%FF", "INVALID_ID"],
      ["savepoint://agents/a%00b", "INVALID_ID"],
    ] as const;
    for (const [uri, code] of missing) expect((await client.failToRead(uri)).code, uri).toBe(code);
    for (const uri of ["savepoint://cheese", "file:///etc/passwd", "nonsense"]) {
      expect((await client.failToRead(uri)).text).toBeTruthy();
    }
  });
});
