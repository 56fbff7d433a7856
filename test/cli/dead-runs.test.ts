/** A run whose process has died: recorded effects, and effects with an unknown outcome. */
import { spawn } from "node:child_process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BUILT_LIBRARY, linesOf } from "./command.js";
import { Place } from "./place.js";

/** Reads, then dies during the charge. */
const program = (url: string): string => `
  const { defineAgent, Savepoint } = await import(${JSON.stringify(BUILT_LIBRARY)});
  const shop = defineAgent({
    name: "shop",
    initial: () => ({}),
    async step(run) {
      await run.effect("read", async () => ({ stock: 3n, said: "\\u001b[31mred" }));
      await run.effect("fails", async () => { throw new TypeError("no\\nway \\u001b[31m"); }, { retry: { attempts: 1 } }).catch(() => {});
      await run.tool({ id: "c1", name: "charge", arguments: { card: "42" } }, () => process.kill(process.pid, "SIGKILL"));
    },
  });
  const sp = await Savepoint.open(${JSON.stringify(url)});
  await sp.run(shop, { session: "order", input: {} });
`;

describe.concurrent("a run whose process has died", () => {
  let place: Place;
  beforeAll(async () => {
    place = new Place();
    const child = spawn(process.execPath, ["--input-type=module", "-e", program(place.url)], { stdio: "inherit" });
    await new Promise((resolve) => child.on("close", resolve));
  });
  afterAll(() => place.end());

  it("sessions lists the run as interrupted", async () => {
    expect(await place.json(["sessions"])).toMatchObject([{ id: "order", agent: "shop", status: "interrupted" }]);
    expect(await place.json(["sessions", "--status", "interrupted"])).toHaveLength(1);
    expect(await place.json(["sessions", "--status", "running"])).toEqual([]);
  });

  it("journal --json distinguishes recorded effects from effects with an unknown outcome", async () => {
    expect(await place.json(["journal", "order"])).toMatchObject([
      { index: 0, name: "read", outcome: "recorded", value: { stock: { $bigint: "3" }, said: "\u001b[31mred" } },
      { index: 1, name: "fails", outcome: "failed", error: { name: "TypeError", message: "no\nway \u001b[31m" } },
      { index: 2, kind: "tool", name: "charge", callId: "c1", arguments: { card: "42" }, outcome: "unknown" },
    ]);
  });

  it("journal prints a hint about how to resume", async () => {
    const { stdout, stderr, code } = await place.on(["journal", "order"]);
    expect(code).toBe(0);
    const lines = linesOf(stdout);
    expect(lines[0]).toMatch(/^STEP +STARTED +TOOK +EFFECT +RESULT$/);
    expect(lines).toHaveLength(6);
    expect(lines[1]).toContain('{"stock":{"$bigint":"3"},"said":"\\u001b[31mred"}');
    expect(lines[2]).toContain("failed TypeError: no⏎way \\u001b[31m");
    expect(lines[3]).toMatch(/charge.* unknown outcome/);
    expect(lines[4]).toBe("* belongs to the current step, which has not ended");
    expect(stderr).toMatch(/^1 effect was interrupted.*\nTo resume, run your program again/);
    expect((await place.on(["journal", "order", "-q"])).stderr).toBe("");
  });

  it("watch reports the run as interrupted and waits until it is resumed", async () => {
    const watching = place.startOn(["watch", "order", "--jsonl"]);
    await watching.seen('"status":"interrupted"');
    watching.interrupt();
    const { stdout } = await watching.ended;
    const types = linesOf(stdout).map((line) => JSON.parse(line) as { type: string; name?: string; phase?: string });
    expect(types).toContainEqual(expect.objectContaining({ type: "effect", name: "charge", phase: "start" }));
    expect(types).not.toContainEqual(expect.objectContaining({ type: "effect", name: "charge", phase: "end" }));
  });
});
