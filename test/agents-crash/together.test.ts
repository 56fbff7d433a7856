import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { seeded } from "../crash/workload.mjs";
import { chooseSeed } from "../support/seed.js";
import { Child } from "./children.js";
import { found } from "./operations.mjs";
import { withStore } from "./snapshot.js";
import { runs } from "../support/runs.js";

const LIVES = runs(5, 1);
const SEARCHES = runs(6, 1);
const CONVERSATIONS = 20;
const MESSAGES = 60;

describe("two processes at once", () => {
  it("two processes that append at once lose no acknowledged append and repeat none when they are killed", async () => {
    const path = join(temporaryFolder(), "together.db");
    const random = seeded(chooseSeed());
    await withStore(path, (sp) => sp.conversations.create({ id: "shared" }));
    /** The acknowledged appends of each life of each process: the texts of one append after another. */
    const lives = new Map<string, string[][]>();
    const live = async (name: string): Promise<void> => {
      for (let life = 0; life < LIVES; life++) {
        const child = new Child();
        const ended = child.do("appendForever", path, `${name}.${life}`);
        await child.spoke();
        // Deliberately a random time: it is killed at any moment.
        await sleep(random(120));
        await child.kill();
        expect(await ended).toEqual({ killed: "SIGKILL", stderr: "" });
        lives.set(`${name}.${life}`, child.acknowledged as string[][]);
      }
    };
    await Promise.all([live("a"), live("b")]);

    const texts = await withStore(path, async (sp) => {
      const { messages, messageCount } = (await sp.conversations.load("shared")) ?? assert.fail();
      const loaded = messages.map(({ content }) => content);
      assert.equal(messageCount, loaded.length);
      assert.equal((await sp.stats()).messages, loaded.length);
      await sp.compact();
      assert.deepEqual((await sp.conversations.load("shared"))?.messages, messages);
      assert.deepEqual(await found(sp, loaded.at(-1) ?? ""), ["conversation shared"]);
      return loaded;
    });
    let count = 0;
    for (const [life, acknowledged] of lives) {
      expect(acknowledged.length).toBeGreaterThan(0);
      const mine = texts.filter((text) => text.startsWith(`${life} `));
      const known = acknowledged.flat();
      expect(mine.slice(0, known.length)).toEqual(known);
      // The append in which it died may be there completely.
      const n = acknowledged.length;
      const last = Array.from({ length: 1 + (n % 3) }, (_, part) => `${life} ${n} ${part}`);
      expect([[], last]).toContainEqual(mine.slice(known.length));
      count += mine.length;
      for (const parts of acknowledged) {
        const at = texts.indexOf(parts[0] ?? "");
        expect(texts.slice(at, at + parts.length)).toEqual(parts);
      }
    }
    expect(count).toBe(texts.length);
  });

  it("if one of two processes that build the index at once is killed, the other finds everything", async () => {
    const folder = temporaryFolder();
    const random = seeded(chooseSeed());
    const template = join(folder, "template.db");
    await withStore(template, async (sp) => {
      for (let n = 0; n < CONVERSATIONS; n++) {
        const messages = Array.from({ length: MESSAGES }, (_, m) => ({ role: "user", content: textOf(n, m) }) as const);
        await sp.conversations.create({ id: idOf(n), messages });
      }
    });
    const ids = Array.from({ length: CONVERSATIONS }, (_, n) => idOf(n));
    const hits = ids.filter((_, n) => n % 2 === 0).map((id) => `conversation ${id}`);
    const points = ["BEGIN IMMEDIATE", "INSERT INTO savepoint_text (rowid, text) VALUES (?, ?)", "COMMIT"];
    let killed = 0;
    for (let round = 0; round < SEARCHES || killed === 0; round++) {
      const path = join(folder, `${round}.db`);
      copyFileSync(template, path);
      const point = points[round % points.length] as string;
      const passing = 1 + random(point.startsWith("INSERT") ? 300 : 3);
      const [victim, survivor] = [new Child(), new Child()];
      const [end, other] = await Promise.all([
        victim.do("search", path, "evenly", { point, passing }),
        survivor.do("search", path, "evenly"),
      ]);
      await Promise.all([victim.kill(), survivor.kill()]);
      // The other may have been so fast that it was not needed.
      if ("killed" in end) killed++;
      else expect(end).toEqual({ done: hits });
      expect(other).toEqual({ done: hits });
      await withStore(path, async (sp) => {
        assert.deepEqual(await found(sp, "evenly"), hits);
        for (const n of [0, 7, CONVERSATIONS - 1]) {
          const [hit, ...others] = await sp.conversations.search(textOf(n, MESSAGES - 1));
          assert.deepEqual([hit?.conversationId, others.length], [idOf(n), 0]);
        }
      });
    }
  });
});

function idOf(n: number): string {
  return `c${String(n).padStart(2, "0")}`;
}

function textOf(n: number, m: number): string {
  return `saying <${n}.${m}> ${n % 2 === 0 && m === MESSAGES - 1 ? "evenly" : "oddly"} `;
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-agents-crash-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
