// SavepointSessionStore with the SDK's own functions, and what a transcript has as a session of the store.
import {
  deleteSession,
  forkSession,
  getSessionInfo,
  getSessionMessages,
  getSubagentMessages,
  importSessionToStore,
  listSessions,
  listSubagents,
  renameSession,
  type SessionStore,
  type SessionStoreEntry,
  tagSession,
} from "@anthropic-ai/claude-agent-sdk";
import { randomUUID } from "node:crypto";
import { mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { SavepointSessionStore } from "../../src/integrations/claude/index.js";
import { isSavepointError } from "../../src/index.js";
import { DURABLE_STORES, useStore } from "../langgraph/durable-stores.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const key = { projectKey: "-home-ada-shop", sessionId: "7c1f0a52-0000-4000-8000-000000000001" };
const user = (uuid: string, text: string): SessionStoreEntry => ({
  type: "user",
  uuid,
  timestamp: "2026-11-17T00:00:00.000Z",
  message: { role: "user", content: text },
});

/** A transcript of a conversation, as Claude Code writes it. */
function transcript(sessionId: string, cwd: string, texts: readonly string[]): SessionStoreEntry[] {
  let parentUuid: string | null = null;
  return texts.map((text, index) => {
    const role = index % 2 === 0 ? "user" : "assistant";
    const uuid = randomUUID();
    const content = role === "user" ? text : [{ type: "text", text }];
    const body = role === "user" ? { role, content } : { id: "msg_1", type: "message", role, model: "m", content };
    const line = { type: role, uuid, parentUuid, sessionId, cwd, message: body, isSidechain: false, version: "2.1.0" };
    parentUuid = uuid;
    return { ...line, userType: "external", timestamp: new Date(1e12 + index * 1000).toISOString() };
  });
}

async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return isSavepointError(error) ? error.code : undefined;
}

describe.each(DURABLE_STORES)("a Claude transcript on $name", (kind) => {
  const lab = useStore(kind);

  it("is listed, read, renamed, tagged, forked and deleted by the SDK's own functions", async () => {
    const folder = realpathSync(await makeFolder());
    onTestFinished(() => removeFolder(folder));
    const before = process.env["CLAUDE_CONFIG_DIR"];
    process.env["CLAUDE_CONFIG_DIR"] = join(folder, "config");
    onTestFinished(() => {
      if (before === undefined) delete process.env["CLAUDE_CONFIG_DIR"];
      else process.env["CLAUDE_CONFIG_DIR"] = before;
    });
    const [dir, sessionId] = [join(folder, "shop"), randomUUID()];
    const project = join(folder, "config", "projects", dir.replaceAll(/[^a-zA-Z0-9]/g, "-"));
    const lines = transcript(sessionId, dir, ["refund order 88", "It is refunded.", "and 89", "Done."]);
    const helper = transcript(sessionId, dir, ["look up the order", "It is order 88."]);
    const jsonl = (entries: readonly object[]): string => entries.map((each) => `${JSON.stringify(each)}\n`).join("");
    mkdirSync(dir);
    mkdirSync(join(project, sessionId, "subagents"), { recursive: true });
    writeFileSync(join(project, `${sessionId}.jsonl`), jsonl(lines));
    writeFileSync(
      join(project, sessionId, "subagents", "agent-a1.jsonl"),
      jsonl(helper.map((each) => ({ ...each, agentId: "a1" }))),
    );

    const sessionStore: SessionStore = new SavepointSessionStore(await lab.open());
    await importSessionToStore(sessionId, sessionStore, { dir, batchSize: 3 });
    await importSessionToStore(sessionId, sessionStore, { dir, batchSize: 2 }); // changes nothing
    const options = { dir, sessionStore };
    const texts = (messages: readonly { message: unknown }[]): unknown =>
      messages.map(({ message }) => (message as { content: unknown }).content);
    expect(texts(await getSessionMessages(sessionId, options))).toEqual(
      lines.map(({ message }) => (message as { content: unknown }).content),
    );
    expect(await listSubagents(sessionId, options)).toEqual(["a1"]);
    expect(await getSubagentMessages(sessionId, "a1", options)).toHaveLength(2);

    await renameSession(sessionId, "Refunds", options);
    await tagSession(sessionId, "billing", options);
    const [listed, ...others] = await listSessions(options);
    expect(others).toEqual([]);
    expect(listed).toMatchObject({ sessionId, customTitle: "Refunds", tag: "billing", firstPrompt: "refund order 88" });
    expect(await getSessionInfo(sessionId, options)).toMatchObject({ sessionId, customTitle: "Refunds" });

    const fork = await forkSession(sessionId, { ...options, upToMessageId: String(lines[1]?.uuid) });
    expect(texts(await getSessionMessages(fork.sessionId, options))).toHaveLength(2);
    expect((await listSessions(options)).map((each) => each.sessionId).sort()).toEqual(
      [sessionId, fork.sessionId].sort(),
    );
    await deleteSession(sessionId, options);
    expect((await listSessions(options)).map((each) => each.sessionId)).toEqual([fork.sessionId]);
    expect(await listSubagents(sessionId, options)).toEqual([]);
  });

  it("keeps every entry once when two processes append at the same time, and a batch arrives twice", async () => {
    const stores = [new SavepointSessionStore(await lab.open()), new SavepointSessionStore(await lab.open())];
    const work = Array.from({ length: 40 }, async (_, n) => {
      const at = n % 4 === 0 ? { ...key, subpath: "subagents/agent-1" } : key;
      const batch = [user(`u${n}`, `message ${n}`)];
      await stores[n % 2]?.append(at, batch);
      await stores[(n + 1) % 2]?.append(at, batch);
    });
    await Promise.all(work);
    const store = new SavepointSessionStore(await lab.open());
    const uuids = async (subpath?: string): Promise<unknown> =>
      (await store.load({ ...key, ...(subpath && { subpath }) }))
        ?.map(({ uuid }) => Number(uuid?.slice(1)))
        .sort((a, b) => a - b);
    const numbers = Array.from({ length: 40 }, (_, n) => n);
    expect(await uuids()).toEqual(numbers.filter((n) => n % 4 !== 0));
    expect(await uuids("subagents/agent-1")).toEqual(numbers.filter((n) => n % 4 === 0));
  });

  it("keeps the order of concurrent calls", async () => {
    const store = new SavepointSessionStore(await lab.open());
    const lines = Array.from({ length: 30 }, (_, n) => user(`u${n}`, `${n}`));
    await Promise.all(lines.map((line) => store.append(key, [line])));
    expect(await store.load(key)).toEqual(lines);
    const info = await store.session(key).history().all();
    expect(info).toHaveLength(30);
    // Each append writes only its entry: the first one has also the record of the session.
    expect(Math.max(...info.slice(0, 29).map(({ storedBytes }) => storedBytes))).toBeLessThan(1500);
  });

  it("is searched with the transcripts of subagents, by message and not by line", async () => {
    const sp = await lab.open();
    const store = new SavepointSessionStore(sp);
    await store.append(key, transcript(key.sessionId, "/shop", ["refund order 88", "It is refunded."]));
    await store.append({ ...key, subpath: "subagents/agent-1" }, [user("s1", "look for receipts")]);
    const id = store.session(key).id;
    expect(await sp.search("is refunded")).toMatchObject([
      { source: "session", id, path: "/messages/1", role: "assistant" },
    ]);
    expect(await sp.search("receipts", { agent: "claude:-home-ada-shop" })).toMatchObject([
      { id, path: "/subagents/subagents~1agent-1/0", role: "user", messageId: "s1" },
    ]);
    await store.delete(key);
    expect(await sp.search("refunded")).toEqual([]);
  });

  it("is forked without a copy, continued on the branch, and rewound", async () => {
    const sp = await lab.open();
    const store = new SavepointSessionStore(sp);
    await store.append(key, [user("u1", "one")]);
    await store.append({ ...key, subpath: "subagents/agent-1" }, [user("s1", "sub")]);
    const [{ seq } = { seq: -1 }] = await store.session(key).history().all();
    await store.append(key, [user("u2", "two")]);

    const { branch } = await store.session(key).fork({ seq }, { branch: "what-if" });
    const fork = new SavepointSessionStore(sp, { branch });
    await fork.append(key, [user("u3", "three")]);
    const uuids = async (of: SavepointSessionStore): Promise<unknown> => (await of.load(key))?.map(({ uuid }) => uuid);
    expect(await uuids(fork)).toEqual(["u1", "u3"]);
    expect(await uuids(store)).toEqual(["u1", "u2"]);
    expect(await fork.listSubkeys(key)).toEqual(["subagents/agent-1"]);
    expect(await fork.listSessions(key.projectKey)).toHaveLength(1);

    await store.session(key).rewind({ seq });
    expect(await uuids(store)).toEqual(["u1"]);
    await store.append(key, [user("u2", "two")]); // it was rewound, so it is new again
    expect(await uuids(store)).toEqual(["u1", "u2"]);

    const other = { ...key, sessionId: "only-on-the-branch" };
    await fork.append(other, [user("u1", "one")]);
    expect(await uuids(store)).toEqual(["u1", "u2"]);
    expect(await store.load(other)).toBeNull();
    expect(await fork.load(other)).toHaveLength(1);
    expect((await store.listSessions(key.projectKey)).map(({ sessionId }) => sessionId)).toEqual([key.sessionId]);
    expect(await fork.listSessions(key.projectKey)).toHaveLength(2);
  });

  it("is appended to again after another process has deleted it", async () => {
    const [mine, other] = [new SavepointSessionStore(await lab.open()), new SavepointSessionStore(await lab.open())];
    await mine.append(key, [user("u1", "one")]);
    await other.delete(key);
    await mine.append(key, [user("u1", "one"), user("u2", "two")]);
    expect(await other.load(key)).toHaveLength(2);
  });
});

describe("SavepointSessionStore", () => {
  const lab = useStore(DURABLE_STORES[0] as (typeof DURABLE_STORES)[0]);

  it("rejects invalid keys and entries", async () => {
    const store = new SavepointSessionStore(await lab.open());
    for (const invalid of [{ ...key, sessionId: "" }, { ...key, projectKey: 1 }, { ...key, subpath: "" }, undefined]) {
      expect(await codeOf(store.append(invalid as never, []))).toBe("INVALID_ARGUMENT");
      expect(await codeOf(store.load(invalid as never))).toBe("INVALID_ARGUMENT");
    }
    expect(await codeOf(store.append(key, "text" as never))).toBe("INVALID_ARGUMENT");
    expect(await codeOf(store.append(key, [{ type: "user", call: () => 1 }]))).toBe("INVALID_ARGUMENT");
    expect(() => new SavepointSessionStore({} as never)).toThrow(/open Savepoint/);
  });

  it("reports a session in which another program has saved another kind of state", async () => {
    const sp = await lab.open();
    const store = new SavepointSessionStore(sp);
    await store.append(key, [user("u1", "one")]);
    await sp.session(store.session(key).id).save({ messages: "none" });
    expect(await codeOf(store.load(key))).toBe("INVALID_STATE");
    expect(await codeOf(store.append(key, [user("u2", "two")]))).toBe("INVALID_STATE");
  });

  it("keeps listing a session whose newest checkpoint another program has saved", async () => {
    const sp = await lab.open();
    const store = new SavepointSessionStore(sp);
    await store.append(key, [user("u1", "one"), { type: "custom-title", customTitle: "Mine" }]);
    const session = sp.session<{ messages: unknown[] }>(store.session(key).id);
    await session.update((state) => ({ ...state, messages: [...(state?.messages ?? []), user("u2", "two")] }));
    const [summary] = await store.listSessionSummaries(key.projectKey);
    expect(summary?.data).toMatchObject({ customTitle: "Mine" });
    expect(await store.listSessions(key.projectKey)).toEqual([{ sessionId: key.sessionId, mtime: summary?.mtime }]);
    await store.append(key, [user("u2", "two"), user("u3", "three")]);
    expect(await store.load(key)).toHaveLength(4);
    const [after] = await store.listSessionSummaries(key.projectKey);
    expect(after?.data).toMatchObject({ customTitle: "Mine" });
    expect(after?.mtime).toBeGreaterThan(Number(summary?.mtime));
  });

  it("lists only the sessions of a project, also those of a fixed agent", async () => {
    const sp = await lab.open();
    const store = new SavepointSessionStore(sp, { agent: "ada" });
    const other = { projectKey: "-home-ada-blog", sessionId: key.sessionId };
    await store.append(key, [user("u1", "one")]);
    await store.append(other, [user("u1", "another one")]);
    await sp.session("mine", { agent: "ada" }).save({});
    expect(await store.listSessions(key.projectKey)).toHaveLength(1);
    expect(await store.listSessionSummaries(other.projectKey)).toHaveLength(1);
    expect(await new SavepointSessionStore(sp).listSessions(key.projectKey)).toEqual([]);
    expect(await store.load(other)).toMatchObject([{ message: { content: "another one" } }]);
  });

  it("returns copies, which the caller may change", async () => {
    const store = new SavepointSessionStore(await lab.open());
    const given = user("u1", "one");
    const appended = store.append(key, [given]);
    given["message"] = "changed";
    await appended;
    for (let time = 0; time < 2; time++) {
      const [loaded] = (await store.load(key)) ?? [];
      expect(loaded).toEqual(user("u1", "one"));
      (loaded as SessionStoreEntry)["message"] = "changed";
    }
  });
});
