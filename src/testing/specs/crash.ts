/** `kill -9`: what was acknowledged is there, each commit is there whole or not at all, and nothing is unreadable. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { assertBatchesIntact } from "../crash-batches.js";
import type { CrashHarness } from "../harness.js";
import type { TestStore, Suite } from "../suite.js";

const CHILD = fileURLToPath(new URL("../crash-child.js", import.meta.url));

/** The store is killed, looked at and used again this often: at the n-th time that a point is passed. */
const PASSES = [1, 12];
/** After this many acknowledgements, for a process that is killed from outside. */
const ACKNOWLEDGED = [1, 150];

export function crashSpec(suite: Suite): void {
  const { crash } = suite;
  suite.describe("kill -9", () => {
    suite.test("a store is tried with it if, and only if, it is durable", async ({ store }) => {
      assert.equal(store.capabilities.durable, crash !== undefined);
    });
    if (!crash) return;

    for (const point of crash.points) {
      suite.testDurable(`at the point "${point}" of a write`, async (fresh) => {
        await fresh.store.close();
        for (const passes of PASSES) {
          await assertSurvived(fresh, await runUntilKilled(crash, fresh.location, { point, passes }));
        }
      });
    }

    suite.testDurable("at an arbitrary moment", async (fresh) => {
      await fresh.store.close();
      for (const count of ACKNOWLEDGED) {
        await assertSurvived(fresh, await runUntilKilled(crash, fresh.location, { acknowledged: count }));
      }
    });

    suite.testShared("while another process has the store open", async (fresh, second) => {
      await fresh.store.close();
      for (const point of crash.points.slice(-1)) await runUntilKilled(crash, fresh.location, { point, passes: 2 });
      await runUntilKilled(crash, fresh.location, { acknowledged: 20 });
      const last = await assertBatchesIntact(second);
      assert.ok(last >= 20);
      await second.commit({ puts: [{ key: "head", value: String(last) }] });
    });
  });
}

/** When the process dies: by its own hand at a point, or by ours after so many acknowledgements. */
type Death = { readonly point: string; readonly passes: number } | { readonly acknowledged: number };

/** @returns the number of the last batch that was acknowledged; 0 for none */
async function runUntilKilled(crash: CrashHarness, location: string, death: Death): Promise<number> {
  const suicide = "point" in death ? [death.point, String(death.passes)] : [];
  const child = spawn(process.execPath, [CHILD, crash.module, location, ...suicide], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    if ("acknowledged" in death && linesOf(output).length >= death.acknowledged) child.kill("SIGKILL");
  });
  const signal = await new Promise<NodeJS.Signals | null>((resolve, reject) => {
    child.on("error", reject).on("close", (_code, by) => resolve(by));
  });
  assert.equal(signal, "SIGKILL", `The process should have been killed (${JSON.stringify(death)}). ${errors}`);
  return Number(linesOf(output).at(-1) ?? 0);
}

/** Whole lines only. */
function linesOf(output: string): string[] {
  return output.split("\n").slice(0, -1);
}

async function assertSurvived({ reopen }: TestStore, acknowledged: number): Promise<void> {
  const store = await reopen();
  const last = await assertBatchesIntact(store);
  assert.ok(last >= acknowledged, `Batch ${acknowledged} was acknowledged, and the last one there is ${last}.`);
  await store.close();
}
