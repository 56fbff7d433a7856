/** Stores that were written before: whatever wrote them, they open, verify, show the same and resume. */
import { rm } from "node:fs/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import { makeFolder } from "../store/temporary-folder.js";
import { defineClerk } from "./clerk.mjs";
import { BUNDLE, GOLDEN_STORES } from "./golden-stores.js";
import { describeStore } from "./golden-world.js";

const EXPECTED = "./stores/expected.snap";

async function open(url: string): Promise<Savepoint> {
  const sp = await Savepoint.open(url, { durability: "process" });
  onTestFinished(() => sp.close());
  return sp;
}

describe.each(GOLDEN_STORES)("a golden store on $name", (golden) => {
  async function openCopy(): Promise<Savepoint> {
    const place = await golden.copy();
    onTestFinished(() => place.remove());
    return open(place.url);
  }

  it("is intact down to its items and shows what was saved", async () => {
    const sp = await openCopy();
    expect(await sp.verify({ deep: true })).toMatchObject({ ok: true });
    await expect(await describeStore(sp)).toMatchFileSnapshot(EXPECTED);
  });

  it("resumes the runs that were in flight without repeating what was recorded", async () => {
    const sp = await openCopy();
    const log: string[] = [];
    const clerk = defineClerk(defineAgent, {
      model: (n) => void log.push(`model ${n}`),
      tool: (n) => void log.push(`tool ${n}`),
    });

    expect(await sp.run(clerk, { session: "killed in a model call" })).toMatchObject({ output: "filed 3" });
    expect(log.splice(0)).toEqual(["model 1", "tool 1", "model 2", "tool 2"]);

    expect(await sp.run(clerk, { session: "killed in a tool" })).toMatchObject({
      status: "waiting",
      question: { kind: "unknown", call: { id: "call-1" } },
    });
    await sp.answer("killed in a tool", { happened: true, result: "document 1 was filed" });
    expect(await sp.run(clerk, { session: "killed in a tool" })).toMatchObject({ output: "filed 3" });
    expect(log.splice(0)).toEqual(["model 2", "tool 2"]);

    await sp.answer("asks", "the blue one");
    expect(await sp.run(clerk, { session: "asks" })).toMatchObject({
      output: "filed 3",
      state: { filed: ["document 0 is filed", "the blue one", "document 2 is filed"] },
    });
    expect(log.splice(0)).toEqual(["model 2", "tool 2"]);

    const [enqueued, ...others] = await sp.recover([clerk]);
    expect(others).toEqual([]);
    expect(await enqueued?.result()).toMatchObject({ session: "enqueued", output: "filed 1" });
    expect(await sp.verify({ deep: true })).toMatchObject({ ok: true });
  });
});

it("a golden bundle is imported with everything in it", async () => {
  const folder = await makeFolder();
  onTestFinished(() => rm(folder, { recursive: true }));
  const sp = await open(`sqlite:${folder}/imported.db`);
  await sp.import(BUNDLE, { runs: "live" });
  expect(await sp.verify({ deep: true })).toMatchObject({ ok: true });
  await expect(await describeStore(sp)).toMatchFileSnapshot(EXPECTED);
});
