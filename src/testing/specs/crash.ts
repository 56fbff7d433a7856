/** `kill -9`: acknowledged commits survive, each commit is applied entirely or not at all, and nothing is unreadable. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { assertBatchesIntact } from "../crash-batches.js";
import type { CrashHarness } from "../harness.js";
import type { TestStore, Suite } from "../suite.js";

const CHILD = fileURLToPath(new URL("../crash-child.js", import.meta.url));

/** The process is killed when it passes a write point for the n-th time. The store is checked and used again after each kill. */
const PASSES = [1, 12];
/** The process is killed from outside after this many acknowledgements. */
const ACKNOWLEDGED = [1, 150];

export function crashSpec(suite: Suite): void {
  const { crash } = suite;
  suite.describe("kill -9", () => {
    suite.test("a store has a crash harness if and only if it is durable", async ({ store }) => {
      assert.equal(store.capabilities.durable, crash !== undefined);
    });
    if (!crash) return;

    for (const point of crash.points) {
      suite.testDurable(`acknowledged commits survive kill -9 at the write point "${point}"`, async (testStore) => {
        await testStore.store.close();
        for (const passes of PASSES) {
          await assertSurvived(testStore, await runUntilKilled(crash, testStore.location, { point, passes }));
        }
      });
    }

    suite.testDurable("acknowledged commits survive kill -9 at an arbitrary moment", async (testStore) => {
      await testStore.store.close();
      for (const count of ACKNOWLEDGED) {
        await assertSurvived(testStore, await runUntilKilled(crash, testStore.location, { acknowledged: count }));
      }
    });

    suite.testShared(
      "a process that has the store open is not affected when another one is killed",
      async (testStore, second) => {
        await testStore.store.close();
        for (const point of crash.points.slice(-1))
          await runUntilKilled(crash, testStore.location, { point, passes: 2 });
        await runUntilKilled(crash, testStore.location, { acknowledged: 20 });
        const last = await assertBatchesIntact(second);
        assert.ok(last >= 20);
        await second.commit({ puts: [{ key: "head", value: String(last) }] });
      },
    );
  });
}

/** When the process is killed: on its own at a write point, or from outside after some acknowledgements. */
type Kill = { readonly point: string; readonly passes: number } | { readonly acknowledged: number };

/** @returns the number of the last acknowledged batch; 0 if there is none */
async function runUntilKilled(crash: CrashHarness, location: string, kill: Kill): Promise<number> {
  const killAt = "point" in kill ? [kill.point, String(kill.passes)] : [];
  const child = spawn(process.execPath, [CHILD, crash.module, location, ...killAt], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    if ("acknowledged" in kill && linesOf(output).length >= kill.acknowledged) child.kill("SIGKILL");
  });
  const signal = await new Promise<NodeJS.Signals | null>((resolve, reject) => {
    child.on("error", reject).on("close", (_code, by) => resolve(by));
  });
  assert.equal(signal, "SIGKILL", `Expected the process to be killed (${JSON.stringify(kill)}). ${errors}`);
  return Number(linesOf(output).at(-1) ?? 0);
}

/** The complete lines. */
function linesOf(output: string): string[] {
  return output.split("\n").slice(0, -1);
}

async function assertSurvived({ reopen }: TestStore, acknowledged: number): Promise<void> {
  const store = await reopen();
  const last = await assertBatchesIntact(store);
  assert.ok(last >= acknowledged, `Batch ${acknowledged} was acknowledged, but the last one in the store is ${last}.`);
  await store.close();
}
