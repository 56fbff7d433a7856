/** Runs that are cancelled or closed while they work: effects under way are recorded, and no further effect starts. */
import { describe, expect, it } from "vitest";
import { createGate, KINDS, once, orHung, until, useLab, World } from "./lab.js";

const GO = { session: "s", input: "go" };

function listOf(name: string): { name: string; index: number; text: string }[] {
  return Array.from({ length: 40 }, (_, index) => ({ name, index, text: `${name} ${index} `.repeat(5) }));
}

const LARGE: [string, readonly unknown[]][] = [
  ["a long string", ["x".repeat(50_000)]],
  ["a list of objects", [listOf("row")]],
  ["bytes", [Uint8Array.from({ length: 5000 }, (_, index) => index % 251)]],
  ["two lists of parallel tools", [listOf("left"), listOf("right")]],
];

describe.each(KINDS)("a run that is stopped on $name", (kind) => {
  const lab = useLab(kind);

  const cases = LARGE.flatMap(([what, values]) =>
    (["at once", "when its signal is aborted"] as const).map((when) => ({ what, values, when })),
  );

  it.each(cases)("a cancelled run keeps $what that its tools return $when", async ({ values, when }) => {
    const world = new World();
    const gate = createGate();
    const agent = once((run) => {
      const ended = values.map(() => createGate());
      return Promise.all(
        values.map((value, index) =>
          run.tool({ id: `${index}`, name: "tool" }, async ({ signal }) => {
            world.log.push("tool");
            if (when === "when its signal is aborted") {
              await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
            } else await gate.promise;
            // One after the other, each after the previous result is recorded.
            await ended[index - 1]?.promise;
            await lab.idle();
            ended[index]?.open();
            return value;
          }),
        ),
      );
    });
    const handle = await (await lab.open()).start(agent, GO);
    await until(() => world.log.length === values.length, "all tools to begin");
    expect(await (await lab.open()).cancel("s", "enough")).toBe(true);
    gate.open();
    const halted = await handle.result();
    expect(halted.status).toBe("halted");
    expect(halted.reason).toContain("enough");
    const result = await (await lab.open()).run(agent, { ...GO, resume: true });
    expect(result.status).toBe("completed");
    expect(result.output).toStrictEqual(values);
    expect(world.count("tool")).toBe(values.length);
  });

  it("a run can be cancelled right after a start that was not awaited", async () => {
    const sp = await lab.open();
    const agent = once((run) =>
      run.effect(
        "e",
        ({ signal }) => new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve())),
      ),
    );
    const starting = sp.start(agent, GO);
    expect(await orHung(sp.cancel("s", "enough"))).toBe(true);
    const result = await orHung((await starting).result());
    expect(result).toMatchObject({ status: "halted" });
  });
});
