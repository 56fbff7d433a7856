/** Bundles that an attacker made, with fitting checksums: they may be rejected or wrong, but they harm nothing else. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { isSavepointError, message, Savepoint } from "../../src/index.js";
import { openMemoryStore } from "../../src/store/index.js";
import { forge, fromLines, linesOf } from "../bundle/bytes.js";
import { fillSession, sessionOf } from "../bundle/whole.js";
import { codeOf } from "../run/lab.js";

const open = (): Promise<Savepoint> => Savepoint.open("memory:", { on: { damage: () => {} } });

/** The bundle of one session with one checkpoint. */
async function bundleOf(state: unknown, id = "evil"): Promise<Uint8Array> {
  const sp = await open();
  await sp.session(id).save(state);
  return sp.export({ session: id }).bytes();
}

/** Replaces lines of a bundle by any number of others, and corrects all hashes. */
function rewrite(
  bundle: Uint8Array,
  change: (line: Record<string, unknown>) => readonly Record<string, unknown>[],
): Uint8Array {
  const lines = linesOf(bundle).flatMap((line) => {
    const value = JSON.parse(line) as Record<string, unknown>;
    return "savepoint" in value || "end" in value || "complete" in value ? [value] : change(value);
  });
  return forge(fromLines(lines.map((line) => JSON.stringify(line))), (line) => line);
}

/** Everything that a user does with a session, none of which may take long. */
async function useAll(sp: Savepoint, id: string): Promise<void> {
  const attempts: (() => Promise<unknown>)[] = [
    () => sp.session(id).latest(),
    () => sp.session(id).load({ seq: 0 }, { partial: true }),
    () => sp.session(id).history({ limit: 1000 }).all(),
    () => sp.session(id).history({ allBranches: true, limit: 1000 }).all(),
    () => sp.search("secret"),
    () => sp.stats(),
    () => sp.export().bytes(),
    () => sp.compact(),
    () => sp.sessions.list().all(),
    () => sp.session(id).save({ replaced: true }),
  ];
  for (const attempt of attempts) {
    await attempt().catch((error: unknown) => {
      assert.ok(isSavepointError(error), `not an error of Savepoint: ${String(error)}`);
    });
  }
}

/** A session of the store that must not change. */
async function withVictim(sp: Savepoint): Promise<() => Promise<void>> {
  await fillSession(sp, "victim");
  const before = await sessionOf(sp, "victim");
  return async () => assert.deepEqual(await sessionOf(sp, "victim"), before);
}

it("rejects a forged bundle with a status that does not exist", async () => {
  const sp = await open();
  await sp.session("evil").save({ n: 1 });
  await sp.session("evil").annotate({ seq: 0 }, "x", () => 1, { status: "waiting" });
  const bundle = await sp.export({ session: "evil" }).bytes();
  const forged = rewrite(bundle, (line) => ["note" in line ? { note: [0, "status", '["owned",""]'] } : line]);
  const other = await open();
  await expect(codeOf(other.import(forged))).resolves.toBe("DAMAGED");
  expect(await other.sessions.list().all()).toEqual([]);
});

describe("the numbers of a forged bundle", () => {
  it("cannot use up the numbers of the store", async () => {
    const sp = await open();
    const check = await withVictim(sp);
    const header = { savepoint: "bundle", format: 1, id: "x", kind: "all", createdAt: 0, numbers: [0, 2 ** 53 - 1] };
    const sum = (text: string): string => createHash("sha256").update(text).digest("hex");
    const first = JSON.stringify({ ...header, sha256: sum(JSON.stringify(header)) });
    const bundle = fromLines([first, JSON.stringify({ complete: 0, sha256: sum(`${first}\n`) })]);
    await sp.import(bundle).catch((error: unknown) => assert.ok(isSavepointError(error, "DAMAGED")));
    const ids = Array.from({ length: 40 }, (_, n) => `new-${n}`);
    for (const id of ids) await sp.session(id).save({ first: id });
    for (const id of ids) await sp.session(id).save({ second: id });
    for (const id of ids) {
      const states: unknown[] = [];
      for (const { seq } of await sp.session(id).history().all())
        states.push((await sp.session(id).load({ seq }))?.state);
      expect(states).toEqual([{ second: id }, { first: id }]);
    }
    await check();
  });

  it("do not carry over from a failed import of another bundle with the same id", async () => {
    const sp = await open();
    for (let n = 0; n < 20; n++) await sp.session(`own-${n}`).save({ own: n });
    const check = await withVictim(sp);
    const bundle = await bundleOf({ evil: true });
    const withId = (id: string, numbers: [number, number], number: number): Uint8Array =>
      forge(bundle, (line) => {
        if ("savepoint" in line) return { ...line, id: "same", numbers };
        return "begin" in line ? { ...line, id, number } : line;
      });
    for (let number = 0; number < 40; number++) {
      expect(await codeOf(sp.import(withId("\u0000bad", [30, 30], 30)))).not.toBe("none");
      await sp.import(withId(`evil-${number}`, [0, 50], number)).catch(() => {});
      await check();
    }
    for (let n = 0; n < 20; n++) expect(await sp.session(`own-${n}`).latest()).toMatchObject({ state: { own: n } });
  });

  it("cannot make the creation of conversations endless", async () => {
    const a = await open();
    await a.agents.save({ id: "a", name: "A", state: {} });
    await a.conversations.create({ id: "c", agent: "a", messages: [message.user("hi")] });
    await a.checkpoints.create({ agent: "a" });
    const bundle = forge(await a.export({ agent: "a" }).bytes(), (line) =>
      "moves" in line ? { ...line, moves: [{ upTo: 1e15, by: 1 }] } : line,
    );
    const sp = await open();
    await sp.import(bundle).catch((error: unknown) => assert.ok(isSavepointError(error, "DAMAGED")));
    await sp.conversations.create({ id: "new", agent: "a", messages: [message.user("hello")] });
    expect((await sp.conversations.load("new"))?.messages).toEqual([message.user("hello")]);
  });
});

describe("the ranges of a forged bundle", () => {
  const MESSAGES = { messages: ["a", "b"].map((text) => ({ role: "user", content: text.repeat(200) })) };

  it("that name 500 million items do not exhaust the memory", async () => {
    const bundle = forge(await bundleOf(MESSAGES), (line) => {
      if ("row" in line) return { ...line, refs: "0+500000000" };
      if (!("branch" in line)) return line;
      return { ...line, value: (line["value"] as string).replaceAll('"0+2"', '"0+500000000"') };
    });
    const sp = await open();
    const check = await withVictim(sp);
    await sp.import(bundle).catch((error: unknown) => assert.ok(isSavepointError(error, "DAMAGED")));
    await useAll(sp, "evil");
    await check();
  });

  it("that expand a few items to millions are rejected", async () => {
    const bundle = rewrite(await bundleOf(MESSAGES), (line) => {
      if ("items" in line) {
        const list = (level: number): string => Array.from({ length: 30 }, () => `${level}+1`).join(",");
        const frames = [["1"], ...[0, 1, 2, 3, 4].map((level) => ['{"$":["array",0]}', list(level)])];
        return [{ items: [0, 0, frames] }];
      }
      if ("row" in line) return [{ ...line, refs: "5+1" }];
      if (!("branch" in line)) return [line];
      return [{ ...line, value: (line["value"] as string).replaceAll('"0+2"', '"5+1"') }];
    });
    const sp = await open();
    await sp.import(bundle).catch((error: unknown) => assert.ok(isSavepointError(error, "DAMAGED")));
    await useAll(sp, "evil");
    const loaded = await sp
      .session("evil")
      .load({ seq: 0 }, { partial: true })
      .catch(() => undefined);
    expect(JSON.stringify(loaded?.state ?? null).length).toBeLessThan(10_000_000);
  });

  it("that form a cycle are rejected", async () => {
    const bundle = rewrite(await bundleOf(MESSAGES), (line) => {
      if ("items" in line)
        return [
          {
            items: [
              0,
              0,
              [
                ['{"$":["array",0]}', "0+2"],
                ['{"$":["array",0]}', "0+2"],
              ],
            ],
          },
        ];
      return [line];
    });
    const sp = await open();
    await sp.import(bundle).catch((error: unknown) => assert.ok(isSavepointError(error, "DAMAGED")));
    await useAll(sp, "evil");
  });

  it("are checked for parents that are newer than their children", async () => {
    const a = await open();
    for (let n = 0; n < 3; n++) await a.session("evil").save({ n });
    const bundle = forge(await a.export({ session: "evil" }).bytes(), (line) => {
      if (line["row"] !== 0) return line;
      return { ...line, value: (line["value"] as string).replace(/^\{/, '{"p":[-2,1],') };
    });
    const sp = await open();
    await sp.import(bundle).catch((error: unknown) => assert.ok(isSavepointError(error, "DAMAGED")));
    expect((await sp.session("evil").history({ limit: 100 }).all()).length).toBeLessThan(4);
    await useAll(sp, "evil");
  });
});

describe("a forged bundle with 200,000 nested brackets", () => {
  const deep = "[".repeat(200_000) + "]".repeat(200_000);

  it("is rejected where they are in a state", async () => {
    const bundle = forge(await bundleOf([1]), (line) => {
      if (!("row" in line) && !("branch" in line)) return line;
      return { ...line, value: (line["value"] as string).replace(/\[1\]$/, deep) };
    });
    const sp = await open();
    await sp.import(bundle).catch((error: unknown) => assert.ok(isSavepointError(error, "DAMAGED")));
    await useAll(sp, "evil");
  });

  it("is rejected where they are in its header", async () => {
    const bundle = forge(await bundleOf([1]), (line) => line);
    const [header = "", ...rest] = linesOf(bundle);
    const deepHeader = header.replace(/^\{/, `{"x":${deep},`);
    expect(await codeOf((await open()).import(fromLines([deepHeader, ...rest])))).toBe("DAMAGED");
    expect((await (await open()).verify({ bundle: fromLines([deepHeader, ...rest]) })).ok).toBe(false);
  });

  it("is rejected where they are metadata", async () => {
    const bundle = forge(await bundleOf([1]), (line) => {
      if (!("row" in line) && !("branch" in line)) return line;
      return { ...line, value: (line["value"] as string).replace(/\{"i"/, `{"m":{"x":${deep}},"i"`) };
    });
    const sp = await open();
    await sp.import(bundle).catch((error: unknown) => assert.ok(isSavepointError(error, "DAMAGED")));
    await useAll(sp, "evil");
  });
});

describe("a line of a forged bundle", () => {
  const bytes = new Uint8Array(2000).fill(7);

  it.each<[string, string, (line: Record<string, unknown>) => Record<string, unknown>]>([
    ["lacks the bytes of a blob", "blob", ({ blob }) => ({ blob })],
    ["lacks the content of a checkpoint", "row", ({ row }) => ({ row })],
    ["lacks the content of a branch", "branch", ({ branch }) => ({ branch })],
    ["is of two kinds", "items", ({ items }) => ({ items, blob: "0".repeat(64) })],
    ["is of no kind", "session", () => ({ other: 1 })],
  ])("is rejected if it %s", async (_, kind, change) => {
    const bundle = rewrite(await bundleOf({ bytes, text: ["a".repeat(500)] }), (line) => [
      kind in line ? change(line) : line,
    ]);
    const sp = await open();
    const isUnchanged = await withVictim(sp);
    expect(await codeOf(sp.import(bundle))).toBe("DAMAGED");
    expect((await sp.verify({ bundle })).ok).toBe(false);
    await isUnchanged();
  });
});

describe("the counter of a forged conversation", () => {
  it("that names a trillion messages neither hangs an export nor keeps other conversations out of it", async () => {
    const store = openMemoryStore();
    const sp = await Savepoint.open(store, { on: { damage: () => {} } });
    await sp.conversations.create({ id: "forged", messages: [message.user("one"), message.user("two")] });
    await sp.conversations.create({ id: "other", messages: [message.user("three")] });
    const [counter] = await store.list({ from: "c\tforged\tn", to: "c\tforged\to" }, { limit: 1 });
    assert.ok(counter && "value" in counter && counter.value === "2");
    await store.commit({ puts: [{ key: counter.key, value: "1000000000000" }] });
    const bundle = sp.export();
    const copy = await open();
    const { holes, conversations } = await copy.import(await bundle.bytes());
    expect(holes).toHaveLength(1);
    expect(holes[0]?.place).toMatch(/items 2 to 999999999999/);
    expect(conversations).toBe(2);
    expect((await copy.conversations.load("other"))?.messages).toHaveLength(1);
    await useAll(copy, "other");
  });
});
