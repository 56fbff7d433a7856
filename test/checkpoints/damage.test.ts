/** Damage is reported, and does not prevent other data from being found, listed, restored, pruned or deleted. */
import { describe, expect, it } from "vitest";
import { message, type Savepoint } from "../../src/index.js";
import {
  agentConversationKey,
  agentHistoryId,
  branchKey,
  conversationKey,
  decodeSession,
  noteKey,
  rowKey,
  sessionKey,
  tapeName,
} from "../../src/records/index.js";
import { useDamageableFile } from "../model/damageable-file.js";

const file = useDamageableFile();
const { flip } = file;

function open(): Promise<Savepoint> {
  const quiet = { damage: () => {}, backgroundFailure: () => {} };
  return file.open({ durability: "process", on: quiet });
}

async function numberOf(sp: Savepoint, session: string): Promise<number> {
  // What waits is written where it can be read.
  await sp.stats();
  const row = file.database.prepare("SELECT value FROM savepoint_record WHERE key = ?").get(sessionKey(session));
  return decodeSession((row as { value: string }).value).number;
}

describe("damage", () => {
  it("of one session prevents neither a listing of other sessions' checkpoints nor loading its own", async () => {
    const sp = await open();
    const bad = await sp.session("bad").save({ n: 1 });
    const good = await sp.session("good").save({ n: 2 });
    flip(branchKey("bad", "main"));
    const again = await open();
    expect((await again.checkpoints.list().all()).map(({ id }) => id)).toContain(good.id);
    expect((await again.checkpoints.latest())?.id).toBe(good.id);
    expect((await again.checkpoints.load(bad.id))?.id).toBe(bad.id);
  });

  it("of a session's head does not prevent a restore of the session", async () => {
    const sp = await open();
    const session = sp.session("s");
    const messages = Array.from({ length: 20 }, (_, index) => message.user(`${index} ${"x".repeat(200)}`));
    const good = await session.save({ messages: messages.slice(0, 10) });
    await session.save({ messages });
    file.damage({ kind: "item", tape: tapeName(await numberOf(sp, "s"), 0), item: 15 }, "flip");
    const again = await open();
    expect((await again.checkpoints.latest({ session: "s" }))?.id).toBe(good.id);
    await again.checkpoints.restore(good.id);
    expect((await again.session("s").latest())?.state).toEqual({ messages: messages.slice(0, 10) });
  });

  it("of a checkpoint's pin keeps that checkpoint, and no other, from being pruned", async () => {
    const sp = await open();
    const session = sp.session("s");
    const first = await session.save({ n: 0 }, { kind: "automatic" });
    await session.pin(first.id, false);
    await sp.autoCheckpoints.set({ session: "s" }, { max: 2 });
    flip(noteKey(await numberOf(sp, "s"), 0, "pin"));
    const again = await open();
    const other = again.session("s");
    for (let n = 1; n < 8; n++) await other.save({ n }, { kind: "automatic" });
    const left = await again.checkpoints.list({ session: "s" }).all();
    expect(left.map(({ seq }) => seq)).toEqual([7, 0]);
    await expect(again.checkpoints.delete(first.id)).rejects.toMatchObject({ code: "CONFLICT" });
  });

  it("of a conversation, or of its entry in the list, is fixed by restoring or deleting the conversation", async () => {
    const sp = await open();
    await sp.agents.save({ id: "a", name: "A" });
    for (const id of ["one", "two"]) await sp.conversations.create({ id, agent: "a", messages: [message.user(id)] });
    const { id } = await sp.checkpoints.create({ agent: "a" });
    await sp.conversations.append("one", [message.user("more")]);
    flip(conversationKey("one"));
    const listed = file.database.prepare(
      "SELECT key FROM savepoint_record WHERE key >= ? AND key < ? ORDER BY key DESC",
    );
    const { key } = listed.get(agentConversationKey("a", 0).slice(0, -2), "k\tb") as { key: string };
    flip(key);
    const again = await open();
    await expect(again.conversations.load("one")).rejects.toMatchObject({ code: "DAMAGED" });
    await expect(again.checkpoints.create({ agent: "a" })).rejects.toMatchObject({ code: "DAMAGED" });
    expect(await again.checkpoints.restore(id)).toMatchObject({ recreated: ["one"] });
    expect((await again.conversations.load("one"))?.messages).toEqual([message.user("one")]);
    flip(conversationKey("two"));
    const last = await open();
    expect(await last.conversations.delete("two")).toBe(true);
    expect(await last.conversations.load("two")).toBeUndefined();
    await last.checkpoints.create({ agent: "a" });
  });

  it("of a conversation that has not changed does not prevent a checkpoint, which keeps its messages", async () => {
    const sp = await open();
    await sp.agents.save({ id: "a", name: "A" });
    await sp.conversations.create({ id: "one", agent: "a", messages: [message.user("one")] });
    await sp.checkpoints.create({ agent: "a" });
    flip(conversationKey("one"));
    const again = await open();
    const { id } = await again.checkpoints.create({ agent: "a" });
    expect(await again.checkpoints.restore(id)).toMatchObject({ recreated: ["one"] });
    expect((await again.conversations.load("one"))?.messages).toEqual([message.user("one")]);
  });

  it("of an agent's newest version does not prevent a restore", async () => {
    const sp = await open();
    const list = Array.from({ length: 20 }, (_, index) => `${index} ${"y".repeat(200)}`);
    await sp.agents.save({ id: "a", name: "A", state: { list: list.slice(0, 5) } });
    const { id } = await sp.checkpoints.create({ agent: "a" });
    await sp.agents.save({ id: "a", name: "A", state: { list } });
    const number = await numberOf(sp, agentHistoryId("a"));
    file.damage({ kind: "item", tape: tapeName(number, 0), item: 15 }, "flip");
    const again = await open();
    await again.checkpoints.restore(id);
    expect((await again.agents.load("a"))?.state).toEqual({ list: list.slice(0, 5) });
    expect((await again.agents.load("a"))?.version).toBeGreaterThan(2);
  });

  it("of the checkpoint before the newest does not make a session seem empty", async () => {
    const sp = await open();
    const session = sp.session("s");
    for (let n = 0; n < 3; n++) await session.save({ n });
    flip(rowKey(await numberOf(sp, "s"), 1));
    const again = await open();
    await expect(again.checkpoints.delete("s#2")).rejects.toMatchObject({ code: "CONFLICT" });
    expect((await again.session("s").latest())?.state).toEqual({ n: 2 });
  });
});
