/** The AI SDK's loop, killed at every model call, in every tool and after every step. */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { Child, Victims } from "../run-crash/children.js";
import { temporaryFolder } from "../run-crash/folders.js";
import type { Death } from "../run-crash/world.mjs";
import type { Served, Variant } from "./shop.mjs";

export const POLICIES = ["ask", "retry", "verify", "fail"] as const;

/** The stores that survive the death of a process. */
export const STORE_KINDS = ["sqlite", "file"] as const;

const program = fileURLToPath(new URL("./child.mjs", import.meta.url));
/** Version 7 needs a newer Node than the oldest that Savepoint supports. */
const currentNode = fileURLToPath(new URL("../../node_modules/node/bin/node", import.meta.url));

const createChild = (sdk: 6 | 7): Child => new Child(program, sdk === 7 ? currentNode : process.execPath);

/** A process to kill, and how. */
export interface Killing {
  readonly variant: Variant;
  readonly death: Death;
}

/** All passes of all points of this variant, found by running it to completion. */
export async function enumerateKillings(variant: Variant): Promise<Killing[]> {
  const folder = temporaryFolder();
  const child = createChild(variant.sdk);
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
export async function killAll(killings: readonly Killing[], sdk: 6 | 7): Promise<void> {
  const root = temporaryFolder();
  const [victims, resumer] = [new Victims(() => createChild(sdk)), createChild(sdk)];
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

/** The calls that reached the outside world. */
class Log {
  readonly #lines: readonly string[];

  constructor(folder: string) {
    this.#lines = readFileSync(join(folder, "world.log"), "utf8").trim().split("\n");
  }

  models(turn: string, spoken: number): number {
    return this.#lines.filter((line) => line === `model ${turn} ${spoken}`).length;
  }

  /** The idempotency keys with which something was charged. */
  charges(id: string): readonly string[] {
    return this.#lines.flatMap((line) => (line.startsWith(`end ${id} `) ? [line.split(" ")[2] ?? ""] : []));
  }

  /** The marks of the replies and results that callbacks of the SDK have seen. */
  seen(): readonly string[] {
    return this.#lines.flatMap((line) => (line.startsWith("saw mark") ? line.split(" ").slice(1) : []));
  }
}

function check({ policy }: Variant, served: Served, log: Log, death: Death | undefined): void {
  assert.equal(served.status, "completed");
  assert.deepEqual(served.texts, ["Charged, one.", "Charged, two."]);
  // Each finished step has exactly one checkpoint.
  assert.deepEqual(served.steps, [0, 1, 2, 3, 3, 4, 5, 6]);
  // Whatever was seen, by the killed process too, is what the conversation contains.
  const text = JSON.stringify(served.messages);
  for (const mark of log.seen()) assert.ok(text.includes(mark), `${mark} was seen, and is not in the conversation`);
  const inWrite = death?.point.startsWith("store ") === true;
  const failed: string[] = [];
  let repeated = 0;
  for (const turn of ["one", "two"]) {
    for (const spoken of [0, 1, 2]) {
      // Only a process that dies before a reply is complete has to ask again.
      const asked = log.models(turn, spoken);
      const times =
        death?.point === `${turn} model ${spoken}`
          ? [2]
          : inWrite || dyingWhileItCame(turn, spoken, death)
            ? [1, 2]
            : [1];
      repeated += asked - 1;
      assert.ok(times.includes(asked), `model ${turn} ${spoken} was asked ${asked} times`);
    }
    for (const call of ["a", "b", "c"]) {
      const id = `${turn}-${call}`;
      const done = log.charges(id);
      const died = [`${turn} tool ${id} begin`, `${turn} tool ${id} end`].indexOf(death?.point ?? "");
      // Beside a tool that dies, a parallel one may have begun without being recorded.
      const beside =
        call !== "c" && death?.point.startsWith(`${turn} tool ${turn}-`) && !death.point.includes(`${turn}-c`);
      if (policy === "fail" && (died >= 0 || beside || inWrite)) {
        assert.ok(done.length <= 1, `${id} was charged ${done.length} times`);
        failed.push(id);
      } else if (policy === "retry" && (died === 1 || beside || inWrite)) {
        assert.ok(done.length >= 1 && done.length <= 2, `${id} was charged ${done.length} times`);
      } else assert.equal(done.length, 1, `${id} was charged ${done.length} times`);
      // However often it was charged: with one key.
      assert.ok(new Set(done).size <= 1, `${id} had several keys`);
    }
  }
  assert.ok(repeated <= 1, `${repeated} replies were paid for twice`);
  assert.deepEqual(outline(served.messages, failed), outline(expected(), failed));
}

/** A stream passes on its parts before it is complete. */
function dyingWhileItCame(turn: string, spoken: number, death: Death | undefined): boolean {
  return spoken === 2 && death?.point === `${turn} part`;
}

/** The messages without their marks, and without the results of tools whose outcome is unknown. */
function outline(messages: readonly unknown[], failed: readonly string[]): unknown {
  return JSON.parse(JSON.stringify(messages), (key, value: unknown) => {
    if (key === "mark" || key === "providerOptions") return undefined;
    const { type, toolCallId, output } = (value ?? {}) as { type?: string; toolCallId?: string; output?: unknown };
    return type === "tool-result" && failed.includes(toolCallId ?? "") && output ? { type, toolCallId } : value;
  });
}

function expected(): unknown[] {
  return ["one", "two"].flatMap((turn) => {
    const call = (id: string, amount: number): object => ({
      type: "tool-call",
      toolCallId: `${turn}-${id}`,
      toolName: "charge",
      input: { amount },
    });
    const result = (id: string, charged: number): object => ({
      type: "tool-result",
      toolCallId: `${turn}-${id}`,
      toolName: "charge",
      output: { type: "json", value: { charged } },
    });
    return [
      { role: "user", content: `Charge me, ${turn}.` },
      { role: "assistant", content: [call("a", 1), call("b", 2)] },
      { role: "tool", content: [result("a", 1), result("b", 2)] },
      { role: "assistant", content: [call("c", 3)] },
      { role: "tool", content: [result("c", 3)] },
      { role: "assistant", content: [{ type: "text", text: `Charged, ${turn}.` }] },
    ];
  });
}
