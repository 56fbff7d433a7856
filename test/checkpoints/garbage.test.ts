import { describe, expect, it } from "vitest";
import { type Attachment, type DamageEvent, isSavepointError, message, type Savepoint } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";
import { ALL_KINDS, useLab } from "../run/lab.js";
import { AGENT, begin, everythingOf, FAST, idsIn, saveAgent, talk, texts } from "./agent-data.js";
import { runs } from "../support/runs.js";

/** Loads every conversation, as it is and as every checkpoint has it. Returns how many there were. */
async function loadEverything(sp: Savepoint): Promise<number> {
  let loaded = 0;
  for await (const { id } of sp.conversations.list()) {
    expect(await sp.conversations.load(id), id).toBeDefined();
    loaded++;
  }
  for await (const { id } of sp.checkpoints.list()) {
    const checkpoint = await sp.checkpoints.load(id);
    expect(checkpoint, id).toBeDefined();
    if (!checkpoint || !("conversations" in checkpoint)) continue;
    for (const conversation of checkpoint.conversations) {
      const then = await sp.conversations.load(conversation.id, { at: id });
      expect(then?.messages).toHaveLength(conversation.messageCount);
      loaded++;
    }
  }
  return loaded;
}

const long = (text: string): string => `${text} ${"x".repeat(500)}`;

describe.each(STORES)("garbage of conversations and checkpoints on $name", (kind) => {
  const data = useData(kind);

  it("of messages that a restore removed is freed when no checkpoint refers to them any more, and not before", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await begin(sp, "c", "stays");
    const first = await sp.checkpoints.create({ agent: AGENT });
    for (let n = 0; n < 20; n++) await talk(sp, "c", long(`${n}`));
    const { before, checkpoint } = await sp.checkpoints.restore(first.id);
    expect((await sp.compact()).items).toBe(0);
    expect(await texts(sp, "c", before.id)).toHaveLength(21);
    expect(await texts(sp, "c")).toEqual(["stays"]);
    await sp.checkpoints.delete(before.id);
    const freed = await sp.compact();
    expect(freed.items).toBeGreaterThanOrEqual(20);
    expect(freed.bytes).toBeGreaterThan(0);
    expect((await sp.compact()).items).toBe(0);
    for (const id of [first.id, checkpoint.id]) expect(await texts(sp, "c", id)).toEqual(["stays"]);
    await talk(sp, "c", "goes on");
    expect(await texts(await data.open(FAST), "c")).toEqual(["stays", "goes on"]);
  });

  it("of replaced messages is freed, and the remaining messages keep their order", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const said = Array.from({ length: 30 }, (_, n) => message.user(long(`${n}`)));
    await sp.conversations.create({ id: "c", agent: AGENT, messages: said });
    const kept = said
      .filter((_, n) => n % 3 === 0)
      .slice()
      .reverse();
    await sp.conversations.save({ id: "c", messages: kept });
    expect((await sp.compact()).items).toBe(20);
    expect((await sp.conversations.load("c"))?.messages).toEqual(kept);
    await talk(sp, "c", "more");
    expect((await sp.conversations.load("c"))?.messages).toEqual([...kept, message.user("more")]);
  });

  it("of a deleted conversation is kept for checkpoints, and for conversations restored from one", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await begin(sp, "a", ...Array.from({ length: 10 }, (_, n) => long(`a${n}`)));
    await begin(sp, "b", ...Array.from({ length: 10 }, (_, n) => long(`b${n}`)));
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    const then = await everythingOf(sp);
    await sp.conversations.delete("a");
    await sp.conversations.delete("b");
    expect((await sp.compact()).items).toBe(0);
    await sp.checkpoints.restore(id);
    await sp.conversations.delete("b");
    // From now on only `a` needs items on a tape that is not its own.
    for await (const info of sp.checkpoints.list()) await sp.checkpoints.delete(info.id);
    expect((await sp.compact()).items).toBeGreaterThanOrEqual(10);
    expect((await everythingOf(sp)).conversations).toEqual({ a: then.conversations["a"] });
    await talk(sp, "a", "more");
    await sp.compact();
    expect(await texts(await data.open(FAST), "a")).toHaveLength(11);
    await sp.conversations.delete("a");
    expect((await sp.compact()).items).toBeGreaterThanOrEqual(11);
    expect((await sp.compact()).items).toBe(0);
  });

  it("of an agent is freed with it, including its checkpoints", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1, { state: { text: long("state") } });
    await begin(sp, "gone", long("gone"));
    await begin(sp, "c", long("c"));
    await sp.checkpoints.create({ agent: AGENT });
    await sp.conversations.delete("gone");
    await sp.agents.delete(AGENT);
    await sp.compact();
    const rest = await sp.compact();
    expect(rest).toMatchObject({ sessions: 0, items: 0 });
    expect(await sp.stats({ agent: AGENT })).toMatchObject({ agents: 0, conversations: 0, checkpoints: 0, bytes: 0 });
  });

  it("is freed while other processes append, take checkpoints, restore and delete, and everything still loads", async () => {
    const damage: DamageEvent[] = [];
    const on = { damage: (event: DamageEvent) => void damage.push(event), backgroundFailure: () => {} };
    const [sp, other] = [await data.open({ ...FAST, on }), await data.open({ ...FAST, on })];
    await saveAgent(sp, 0);
    for (const id of ["a", "b", "c"]) await begin(sp, id, "start");
    await sp.checkpoints.create({ agent: AGENT, label: "first" });
    const rounds = runs(60, 6);
    let freed = 0;
    /** What may be gone by the time it is reached for. */
    const tolerant = async (work: Promise<unknown>): Promise<void> => {
      await work.catch((error: unknown) => {
        const expected = ["CONFLICT", "CHECKPOINT_NOT_FOUND", "CONVERSATION_NOT_FOUND"] as const;
        if (!expected.some((code) => isSavepointError(error, code))) throw error;
      });
    };
    const loop = async (work: (n: number) => Promise<void>): Promise<void> => {
      for (let n = 0; n < rounds; n++) {
        await work(n);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await Promise.all([
      loop(async (n) => {
        await tolerant(talk(other, ["a", "b", "c"][n % 3] ?? "", long(`${n}`)));
        if (n % 7 === 3) await tolerant(sp.conversations.save({ id: "b", messages: [message.user(`only ${n}`)] }));
        if (n % 11 === 5) await other.conversations.delete("c");
        if (n % 11 === 7) await tolerant(other.conversations.create({ id: "c", agent: AGENT }));
      }),
      loop(async (n) => {
        const creator = n % 2 ? sp : other;
        await tolerant(creator.checkpoints.create({ agent: AGENT }));
        const all = await idsIn(sp.checkpoints.list({ agent: AGENT }));
        if (n % 4 === 2) await tolerant(other.checkpoints.restore(all[n % all.length] ?? ""));
        for (const id of all.slice(6)) await tolerant(sp.checkpoints.delete(id));
      }),
      loop(async (n) => {
        freed += (await (n % 2 ? sp : other).compact()).items;
      }),
    ]);
    const fresh = await data.open({ ...FAST, on });
    expect(await loadEverything(fresh)).toBeGreaterThan(0);
    for await (const { id } of fresh.checkpoints.list({ agent: AGENT })) {
      await fresh.checkpoints.restore(id);
      await loadEverything(fresh);
      break;
    }
    freed += (await fresh.compact()).items;
    await loadEverything(fresh);
    expect(freed).toBeGreaterThan(0);
    expect(damage).toEqual([]);
  });
});

describe.each(ALL_KINDS)("attachments on $name", (kind) => {
  const lab = useLab(kind);

  const attachment = (fill: number): Attachment => ({
    type: "file",
    name: `${fill}`,
    content: new Uint8Array(5000).fill(fill),
  });
  const contentOf = async (sp: Savepoint, id: string, at?: string): Promise<(number | undefined)[]> => {
    const loaded = await sp.conversations.load(id, at === undefined ? {} : { at });
    return (loaded?.messages ?? []).map(({ attachments }) => {
      const content = attachments?.[0]?.content;
      expect(content).toHaveLength(5000);
      return content?.[4999];
    });
  };

  it("are kept while a conversation or a checkpoint refers to them, and freed afterwards", async () => {
    const sp = await lab.open();
    await saveAgent(sp, 1);
    const said = [1, 2, 3].map((fill) => message.user(`${fill}`, { attachments: [attachment(fill)] }));
    await sp.conversations.create({ id: "c", agent: AGENT, messages: said });
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await sp.conversations.save({ id: "c", messages: said.slice(0, 1) });
    lab.advance(2 * 3_600_000);
    expect((await sp.compact()).blobs).toBe(0);
    expect(await contentOf(sp, "c", id)).toEqual([1, 2, 3]);
    await sp.conversations.delete("c");
    lab.advance(2 * 3_600_000);
    expect((await sp.compact()).blobs).toBe(0);
    const { before, checkpoint } = await sp.checkpoints.restore(id);
    expect(await contentOf(sp, "c")).toEqual([1, 2, 3]);
    for (const each of [id, before.id, checkpoint.id]) await sp.checkpoints.delete(each);
    lab.advance(2 * 3_600_000);
    expect((await sp.compact()).blobs).toBe(0);
    expect(await contentOf(await lab.open(), "c")).toEqual([1, 2, 3]);
    await sp.conversations.save({ id: "c", messages: said.slice(1, 2) });
    lab.advance(2 * 3_600_000);
    const freed = await sp.compact();
    expect(freed).toMatchObject({ items: 2, blobs: 2 });
    expect(freed.bytes).toBeGreaterThan(0);
    expect(await contentOf(sp, "c")).toEqual([2]);
    await sp.conversations.delete("c");
    lab.advance(2 * 3_600_000);
    expect((await sp.compact()).blobs).toBe(1);
  });
});
