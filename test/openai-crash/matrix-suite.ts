/** The loop of the OpenAI Agents SDK, killed at every model call, in every tool, at every event of a stream and at every write. */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { Child, Victims } from "../run-crash/children.js";
import { temporaryFolder } from "../run-crash/folders.js";
import type { Death } from "../run-crash/world.mjs";
import type { Served, Variant } from "./crew.mjs";

export const POLICIES = ["ask", "retry", "verify", "fail"] as const;

/** The stores that survive the death of a process. */
export const STORE_KINDS = ["sqlite", "file"] as const;

const program = fileURLToPath(new URL("./child.mjs", import.meta.url));
const createChild = (): Child => new Child(program);

/** A process to kill, and how. */
export interface Killing {
  readonly variant: Variant;
  readonly death: Death;
}

/** All passes of all points of this variant, found by running it to completion. */
export async function enumerateKillings(variant: Variant): Promise<Killing[]> {
  const folder = temporaryFolder();
  const child = createChild();
  const end = await child.do("serve", folder, variant);
  await child.kill();
  assert.ok("done" in end, JSON.stringify(end));
  const served = end.done as Served;
  check(variant, served, new Log(folder), undefined);
  return served.passed.flatMap(([point, count]) =>
    Array.from({ length: count }, (_, index) => ({ variant, death: { point, passing: index + 1 } })),
  );
}

/** Kills a process at each of these points, lets another one resume, and checks everything that happened. */
export async function killAll(killings: readonly Killing[]): Promise<void> {
  const root = temporaryFolder();
  const [victims, resumer] = [new Victims(createChild), createChild()];
  const failures: string[] = [];
  for (const { variant, death } of killings) {
    const folder = mkdtempSync(join(root, "killed-"));
    const victim = victims.take();
    try {
      const first = await victim.do("serve", folder, variant, death);
      if (!("killed" in first)) await victim.kill();
      assert.deepEqual(first, { killed: "SIGKILL", stderr: "" });
      const last = await resumer.do("serve", folder, variant);
      assert.ok("done" in last, JSON.stringify(last));
      check(variant, last.done as Served, new Log(folder), death);
      rmSync(folder, { recursive: true, force: true });
    } catch (error) {
      failures.push(`${JSON.stringify(variant)} killed at ${JSON.stringify(death)}: ${String(error)}`);
    }
  }
  await Promise.all([victims.close(), resumer.kill()]);
  expect(failures).toEqual([]);
}

/** What reached the outside world. */
class Log {
  readonly #lines: readonly string[];

  constructor(folder: string) {
    this.#lines = readFileSync(join(folder, "world.log"), "utf8").trim().split("\n");
  }

  models(turn: string, name: string): number {
    return this.#lines.filter((line) => line === `model ${turn} ${name}`).length;
  }

  /** The idempotency keys with which a tool was executed. */
  executions(id: string): readonly string[] {
    return this.#lines.flatMap((line) => (line.startsWith(`end ${id} `) ? [line.split(" ")[2] ?? ""] : []));
  }

  /** The marks of the replies and results that the user's code has seen. */
  seen(): readonly string[] {
    return this.#lines.flatMap((line) => (line.startsWith("saw mark") ? line.split(" ").slice(1) : []));
  }
}

/** The calls of models; those of the adviser are beside the tools of the first reply. */
const MODELS = ["clerk 0", "adviser 0", "adviser 1", "clerk 1", "cashier 2", "cashier 3"];
const BESIDE = ["tool {}-a", "tool {}-b", "tool {}-e", "model adviser"];

function check({ policy }: Variant, served: Served, log: Log, death: Death | undefined): void {
  const point = death?.point ?? "";
  assert.equal(served.status, "completed");
  assert.deepEqual(
    served.texts.map((text) => text.replace(/ mark-\S+/, "")),
    ["Charged, one.", "Charged, two."],
  );
  // Each finished step has exactly one checkpoint.
  assert.deepEqual(served.steps, [0, 1, 2, 3, 4, 4, 5, 6, 7, 8]);
  // Whatever was seen, by the killed process too, is what the history contains.
  const text = JSON.stringify(served.messages);
  for (const mark of log.seen()) assert.ok(text.includes(mark), `${mark} was seen, and is not in the history`);
  const inWrite = point.startsWith("store ");
  const failed: string[] = [];
  for (const turn of ["one", "two"]) {
    // What runs in parallel may be interrupted beside the point.
    const isBeside = BESIDE.some((each) => point.startsWith(`${turn} ${each.replace("{}", turn)}`));
    // Text is streamed before the reply is complete.
    const isRaw = point === `${turn} raw_model_stream_event`;
    for (const name of MODELS) {
      const asked = log.models(turn, name);
      const isAdviser = name.startsWith("adviser");
      const times =
        point === `${turn} model ${name}` ? [2] : inWrite || isRaw || (isBeside && isAdviser) ? [1, 2] : [1];
      assert.ok(times.includes(asked), `model ${turn} ${name} was asked ${asked} times`);
    }
    for (const call of ["a", "b", "c", "e"]) {
      const id = `${turn}-${call}`;
      const done = log.executions(id);
      const died = [`${turn} tool ${id} begin`, `${turn} tool ${id} end`].indexOf(point);
      const isOpen = inWrite || (call !== "c" && (isBeside || isRaw));
      if (policy === "fail" && (died >= 0 || isOpen)) {
        assert.ok(done.length <= 1, `${id} was executed ${done.length} times`);
        failed.push(id);
      } else if (policy === "retry" && (died === 1 || isOpen)) {
        assert.ok(done.length >= 1 && done.length <= 2, `${id} was executed ${done.length} times`);
      } else assert.equal(done.length, 1, `${id} was executed ${done.length} times`);
      // However often it was executed: with one key.
      assert.ok(new Set(done).size <= 1, `${id} had several keys`);
    }
  }
  assert.deepEqual(outline(served.messages, failed), outline(expected(), failed));
}

/** The items without their marks, and without the results of tools whose outcome is unknown. */
function outline(items: readonly object[], failed: readonly string[]): string[] {
  return items.map((item) => {
    const { type, role, callId, name, output, content } = item as Record<string, unknown>;
    const [own] = failed.includes(String(callId)) ? [undefined] : [output];
    return JSON.stringify([type ?? "message", role ?? callId, name, own, content]).replaceAll(
      /(,\\"mark\\":\\"|,\\\\\\"mark\\\\\\":\\\\\\"| )mark-[-0-9a-f]+(\\+")?/g,
      "",
    );
  });
}

function expected(): object[] {
  return ["one", "two"].flatMap((turn) => {
    const call = (id: string, name: string): object => ({ type: "function_call", callId: `${turn}-${id}`, name });
    const result = (id: string, name: string, text: string): object => ({
      type: "function_call_result",
      callId: `${turn}-${id}`,
      name,
      output: { type: "text", text },
    });
    const charged = (amount: number): string => JSON.stringify({ charged: amount });
    return [
      { role: "user", type: "message", content: `Charge me, ${turn}.` },
      call("a", "charge"),
      call("b", "charge"),
      call("d", "ask"),
      result("a", "charge", charged(1)),
      result("b", "charge", charged(2)),
      result("d", "ask", "Really."),
      call("h", "transfer_to_cashier"),
      result("h", "transfer_to_cashier", JSON.stringify({ assistant: "cashier" })),
      call("c", "refund"),
      result("c", "refund", charged(3)),
      { role: "assistant", type: "message", content: [{ type: "output_text", text: `Charged, ${turn}.` }] },
    ];
  });
}
