/** Reading the journal of the current step. */
import { describe, expect, it } from "vitest";
import { defineAgent, type JournalEntry } from "../../src/index.js";
import { ALL_KINDS, useLab } from "./lab.js";

describe.each(ALL_KINDS)("the journal of a session on $name", (kind) => {
  const lab = useLab(kind);

  it("lists effects that are recorded, that failed, and whose outcome is unknown", async () => {
    const sp = await lab.open();
    const never = new Promise<never>(() => {});
    const begun = { resolve: (): void => {} };
    const isBegun = new Promise<void>((resolve) => (begun.resolve = resolve));
    const agent = defineAgent({
      name: "clerk",
      initial: () => ({ n: 0 }),
      async step(run) {
        await run.llm(() => "a reply", { usage: () => ({ tokens: 7 }) });
        await run.tool({ id: "c1", name: "charge", arguments: { amount: 9 } }, () => "charged");
        await run
          .tool({ id: "c2", name: "fail", arguments: {} }, () => Promise.reject(new RangeError("no")))
          .catch(() => {});
        await run.tool({ id: "c3", name: "hang", arguments: {} }, () => (begun.resolve(), never));
        return run.complete();
      },
    });
    const handle = await sp.start(agent, { session: "s", input: undefined });
    await isBegun;
    const shown = (entries: readonly JournalEntry[]): unknown[] =>
      entries.map(({ kind: what, name, callId, outcome, value, error }) => [
        what,
        name,
        callId,
        outcome,
        value,
        error?.message,
      ]);
    const done = [
      ["llm", "llm", undefined, "recorded", "a reply", undefined],
      ["tool", "charge", "c1", "recorded", "charged", undefined],
      ["tool", "fail", "c2", "failed", undefined, "no"],
    ];
    const entries = await sp.journal("s").all();
    expect(shown(entries)).toEqual([...done, ["tool", "hang", "c3", "running", undefined, undefined]]);
    expect(entries[1]).toMatchObject({ index: 1, arguments: { amount: 9 }, startedAt: lab.now() });
    expect(entries[0]?.arguments).toBeUndefined();
    lab.crash();
    const other = await lab.open();
    expect(shown(await other.journal("s").all())).toEqual([
      ...done,
      ["tool", "hang", "c3", "unknown", undefined, undefined],
    ]);
    void handle.result().catch(() => {});
  });

  it("is empty between steps, and for a session that was never run", async () => {
    const sp = await lab.open();
    const agent = defineAgent({
      name: "a",
      initial: () => ({}),
      step: async (run) => run.complete(await run.effect("e", () => 1)),
    });
    await sp.run(agent, { session: "done", input: undefined });
    await sp.session("saved").save({});
    for (const id of ["done", "saved", "never"]) expect(await sp.journal(id).all()).toEqual([]);
  });
});

describe("limits that are given for a run", () => {
  const lab = useLab(ALL_KINDS[0] as (typeof ALL_KINDS)[number]);
  const counter = defineAgent({
    name: "counter",
    initial: () => ({ n: 0 }),
    limits: { steps: 100 },
    async step(run) {
      if (++run.state.n === 10) return run.complete(run.state.n);
    },
  });

  it("replace those of the agent, and do not apply to the next run", async () => {
    const sp = await lab.open();
    const halted = await sp.run(counter, { session: "s", input: undefined, limits: { steps: 3 } });
    expect(halted).toMatchObject({ status: "halted", steps: 3 });
    expect(await sp.run(counter, { session: "s", resume: true })).toMatchObject({ status: "completed", output: 10 });
  });

  it("are validated like those of an agent", async () => {
    const sp = await lab.open();
    const wrong = sp.run(counter, { session: "s", input: undefined, limits: { steps: -1 } });
    await expect(wrong).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });
});
