/** Exports of a damaged store: damaged data is named, intact data arrives, and nothing damaged ever looks intact. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type BundleSummary, defineAgent, message, Savepoint } from "../../src/index.js";
import {
  agentHistoryId,
  branchKey,
  conversationKey,
  conversationsOf,
  decodeSession,
  journalKey,
  noteKey,
  rowKey,
  runKey,
  sessionKey,
  sessionNumberKey,
  tapeName,
} from "../../src/records/index.js";
import { useDamageableFile } from "../model/damageable-file.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { agentOf, fillAgent, fillSession, noise, sessionOf } from "./whole.js";

const file = useDamageableFile();
const quiet = { damage: () => {}, backgroundFailure: () => {} };
const reopen = (): Promise<Savepoint> => file.open({ durability: "process", on: quiet });

async function numberOf(sp: Savepoint, session: string): Promise<number> {
  await sp.stats();
  const row = file.database.prepare("SELECT value FROM savepoint_record WHERE key = ?").get(sessionKey(session));
  return decodeSession((row as { value: string }).value).number;
}

const list = Array.from({ length: 30 }, (_, n) => `${n} ${"x".repeat(200)}`);

/** A session with three checkpoints, of which the last two each add an item. */
async function grow(sp: Savepoint, id: string): Promise<string[]> {
  const session = sp.session<{ list: string[] }>(id);
  const ids = [(await session.save({ list }, { label: "first" })).id];
  for (const text of ["one", "two"]) ids.push((await session.append("/list", [text.repeat(50)])).id);
  return ids;
}

async function move(sp: Savepoint): Promise<{ readonly other: Savepoint; readonly summary: BundleSummary }> {
  const folder = await makeFolder();
  const path = join(folder, "bundle");
  const summary = await sp.export().save(path);
  const other = await Savepoint.open("memory:", { on: quiet });
  const report = await other.import(path);
  await removeFolder(folder);
  expect(report.holes.map(({ reason }) => reason)).toEqual(summary.holes.map(({ reason }) => reason));
  return { other, summary };
}

describe("damage", () => {
  it("of an item is named, and exactly the checkpoints that need it are damaged after the import", async () => {
    const sp = await reopen();
    const [a = "", b = "", c = ""] = await grow(sp, "s");
    await grow(sp, "whole");
    file.damage({ kind: "item", tape: tapeName(await numberOf(sp, "s"), 0), item: 30 }, "flip");
    const { other, summary } = await move(await reopen());
    expect(summary.holes.length).toBeGreaterThan(0);
    const session = other.session<{ list: string[] }>("s");
    expect((await session.load(a))?.state.list).toEqual(list);
    for (const id of [b, c]) await expect(session.load(id)).rejects.toMatchObject({ code: "DAMAGED" });
    expect((await session.load(c, { partial: true }))?.holes).toHaveLength(1);
    expect(await session.latest()).toMatchObject({ id: a, skipped: [{ id: c }, { id: b }] });
    assert.deepEqual(await sessionOf(other, "whole"), await sessionOf(sp, "whole"));
  });

  it("of an item is named once, with its place", async () => {
    const sp = await reopen();
    await grow(sp, "s");
    file.damage({ kind: "item", tape: tapeName(await numberOf(sp, "s"), 0), item: 30 }, "flip");
    const { summary } = await move(await reopen());
    expect(summary.holes).toHaveLength(1);
    expect(summary.holes[0]?.place).toMatch(/session s: .+/);
  });

  it("of a row or a note is named, and nothing else is missing", async () => {
    const sp = await reopen();
    const [a = "", b = "", c = ""] = await grow(sp, "s");
    await sp.session("s").pin(c);
    const number = await numberOf(sp, "s");
    file.flip(rowKey(number, 1));
    file.flip(noteKey(number, 2, "pin"));
    const { other, summary } = await move(await reopen());
    expect(summary.holes.map(({ place }) => place.split(": ")[0])).toEqual(["session s", "session s"]);
    const session = other.session("s");
    for (const id of [a, c]) expect(await session.load(id)).toMatchObject({ id });
    expect((await session.load(b).catch(() => undefined))?.state).toBeUndefined();
    expect((await session.history().all()).map(({ id }) => id)).toEqual([c, a]);
  });

  async function moveBytes(): ReturnType<typeof move> {
    const sp = await reopen();
    await sp.session("bytes").save({ bytes: noise(5, 5000) });
    await sp.stats();
    const [{ hash }] = file.database.prepare("SELECT hash FROM savepoint_blob").all() as [{ hash: string }];
    file.damage({ kind: "blob", hash }, "flip");
    return move(await reopen());
  }

  it("of bytes is reported as damage after the import", async () => {
    const { other } = await moveBytes();
    await expect(other.session("bytes").latest()).rejects.toMatchObject({ code: "DAMAGED" });
    await other.session("own").save({ bytes: noise(5, 5000) });
    expect((await other.session("own").latest())?.state).toEqual({ bytes: noise(5, 5000) });
  });

  it("of bytes is named by the export", async () => {
    const { summary } = await moveBytes();
    expect(summary.holes).toHaveLength(1);
  });

  it("of messages and conversations is named, and the others arrive", async () => {
    const sp = await reopen();
    await sp.agents.save({ id: "a", name: "A", state: { n: 1 } });
    for (const id of ["one", "two", "three"]) {
      await sp.conversations.create({ id, agent: "a", messages: [message.user(id), message.user("more")] });
    }
    const { id: checkpoint } = await sp.checkpoints.create({ agent: "a" });
    await sp.stats();
    const found = file.database.prepare("SELECT value FROM savepoint_record WHERE key = ?").get(conversationKey("two"));
    const { n } = JSON.parse((found as { value: string }).value) as { n: number };
    file.damage({ kind: "item", tape: tapeName(n, 0), item: 1 }, "flip");
    file.flip(conversationKey("three"));
    const { other, summary } = await move(await reopen());
    expect(summary.holes.length).toBe(2);
    assert.deepEqual(await other.conversations.load("one"), await sp.conversations.load("one"));
    await expect(other.conversations.load("two")).rejects.toMatchObject({ code: "DAMAGED" });
    expect((await other.conversations.load("two", { partial: true }))?.messages).toContainEqual(message.user("two"));
    expect(await other.conversations.load("three")).toBeUndefined();
    const then = await other.conversations.load("three", { at: checkpoint });
    expect(then?.messages).toEqual([message.user("three"), message.user("more")]);
  });

  /** The key of a record, by what it is and the number of session `s`. An empty one stands for an entry of a list. */
  type Damaged = [what: string, key: (number: number) => string];
  const borne: Damaged[] = [
    ["the run's record", () => runKey("s", "main")],
    ["a list's entry", () => ""],
  ];
  const fatal: Damaged[] = [
    ["the session's record", () => sessionKey("s")],
    ["the branch's record", () => branchKey("s", "main")],
    ["the number's record", (number) => sessionNumberKey(number)],
    ["the agent's branch", () => branchKey(agentHistoryId("a"), "main")],
    ["the agent's record", () => sessionKey(agentHistoryId("a"))],
    ["the run's journal", () => journalKey("s", "main")],
  ];

  it.each(borne)("of %s is named, and everything else arrives", (_, key) => moveDamaged(key));

  it.each(fatal)("of %s is named, and everything else arrives", (_, key) => moveDamaged(key));

  async function moveDamaged(key: Damaged[1]): Promise<void> {
    const sp = await reopen();
    const worker = defineAgent({
      name: "w",
      initial: (_input: string) => ({ list }),
      async step(run) {
        return run.complete(await run.ask("May I?"));
      },
    });
    await sp.run(worker, { session: "s", input: "go" });
    await fillAgent(sp, "a");
    await fillAgent(sp, "b");
    await fillSession(sp, "whole");
    await sp.stats();
    const { from, to } = conversationsOf("a");
    const listed = file.database.prepare("SELECT key FROM savepoint_record WHERE key >= ? AND key < ?").get(from, to);
    file.flip(key(await numberOf(sp, "s")) || (listed as { key: string }).key);
    const { other, summary } = await move(await reopen());
    expect(summary.holes.length).toBeGreaterThan(0);
    assert.deepEqual(await sessionOf(other, "whole"), await sessionOf(sp, "whole"));
    assert.deepEqual(await agentOf(other, "b"), await agentOf(sp, "b"));
  }
});
