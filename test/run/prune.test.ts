/** Pruning the checkpoints of runs: checkpoints in the middle of a step need the boundary of that step. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { defineAgent, type KeptCheckpoint, type Savepoint } from "../../src/index.js";
import { ALL_KINDS, KINDS, useLab } from "./lab.js";
import { chooseSeed } from "../support/seed.js";

interface Task {
  readonly steps: number;
  readonly tools: number;
  readonly asks?: boolean;
}

/** Calls a number of tools in each step, and takes a checkpoint after each tool: in the middle of the step. */
const worker = defineAgent({
  name: "worker",
  strategy: "afterToolCall",
  loop: false,
  initial: (task: Task) => ({ ...task, done: 0 }),
  receive: (state, task: Task) => ({ ...task, done: state.done }),
  async step(run) {
    const { tools, asks } = run.state;
    for (let n = 0; n < tools; n++) {
      await run.tool({ id: `${run.state.done}-${n}`, name: "work" }, () => "done", { onUnknown: "retry" });
    }
    if (asks && run.state.steps === 1) await run.ask("continue?");
    run.state.done++;
    run.state.steps--;
    return run.state.steps === 0 ? run.complete(run.state.done) : undefined;
  },
});

const seqsOf = async (sp: Savepoint): Promise<number[]> =>
  (await sp.session("s").history({ allBranches: true, order: "oldest" }).all()).map(({ seq }) => seq);

describe.each(ALL_KINDS)("pruning a session with runs on $name", (kind) => {
  const lab = useLab(kind);

  it("removes in one pass also the checkpoints that only removed checkpoints needed", async () => {
    const sp = await lab.open();
    await sp.run(worker, { session: "s", input: { steps: 6, tools: 4 } });
    const plan = await sp.prune({ session: "s", keepLast: 2, dryRun: true });
    const { gone, kept } = await sp.prune({ session: "s", keepLast: 2 });
    expect(gone).toEqual(plan.gone);
    expect(kept).toEqual(plan.kept);
    expect(await sp.prune({ session: "s", keepLast: 2, dryRun: true })).toMatchObject({ removed: 0, kept });
    expect(await seqsOf(sp)).toEqual(kept.map(({ seq }) => seq));
    // The last two, and the boundary of the step that one of them belongs to.
    expect(kept).toHaveLength(3);
  });

  it("reports for each kept checkpoint what needs it", async () => {
    const sp = await lab.open();
    const input = { steps: 3, tools: 2, asks: true };
    expect(await sp.run(worker, { session: "s", input })).toMatchObject({ status: "waiting" });
    const [first] = await sp.session("s").history({ order: "oldest" }).all();
    await sp.session("s").fork(first?.id ?? "", { branch: "side" });
    const { kept } = await sp.prune({ session: "s", keepLast: 1 });
    const needed = kept.filter(({ reasons }) => reasons.includes("needed"));
    const last = kept.at(-1) as KeptCheckpoint;
    expect(needed.map(({ neededBy }) => neededBy)).toEqual([
      [{ kind: "branch", branch: "side" }],
      [
        { kind: "checkpoint", id: last.id, seq: last.seq },
        { kind: "run", branch: "main" },
      ],
    ]);
    for (const { reasons, neededBy } of kept) expect(reasons.includes("needed")).toBe(neededBy !== undefined);
  });

  it("keeps the head of a run that has ended as a head, not for a next step", async () => {
    const sp = await lab.open();
    await sp.run(worker, { session: "s", input: { steps: 3, tools: 2 } });
    const { kept } = await sp.prune({ session: "s", keepLast: 1 });
    expect(kept.map(({ reasons }) => reasons)).toEqual([["head", "last"]]);
  });

  it("applies a limit for automatic checkpoints that was set later with the next save", async () => {
    const sp = await lab.open();
    await sp.run(worker, { session: "s", input: { steps: 5, tools: 3 } });
    expect((await seqsOf(sp)).length).toBeGreaterThan(10);
    await sp.autoCheckpoints.set({ session: "s" }, { max: 2 });
    await sp.session("s").save({ steps: 0, tools: 0, done: 5 }, { kind: "automatic" });
    expect(await seqsOf(sp)).toHaveLength(2);
  });
});

const pick = fc.nat(99);
const action = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("run" as const),
      at: pick,
      steps: fc.integer({ min: 1, max: 3 }),
      tools: fc.nat(3),
      asks: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("save" as const), at: pick }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("fork" as const), to: pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("rewind" as const), at: pick, to: pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("pin" as const), to: pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("label" as const), to: pick }) },
);
const retention = fc.oneof(
  fc.record({ keepLast: fc.nat(3), keepLabelled: fc.boolean() }),
  fc.record({ keepHourly: fc.nat(3), keepDaily: fc.nat(2) }),
  fc.record({ keepLast: fc.nat(2), kinds: fc.constant(["automatic" as const]) }),
);

describe.each(KINDS.slice(0, 1))("pruning at random on $name", (kind) => {
  const lab = useLab(kind);

  it("leaves nothing for a second pass, and does not change the states that it keeps", async () => {
    const seed = chooseSeed();
    const sp = await lab.open();
    let number = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 4, maxLength: 14 }), retention, async (actions, kept) => {
        const id = `s${number++}`;
        const branches = ["main"];
        const infos = () => sp.session(id).history({ allBranches: true, order: "oldest" }).all();
        for (const each of actions) {
          lab.advance(1_200_000);
          const all = await infos();
          const branch = branches["at" in each ? each.at % branches.length : 0] as string;
          const target = "to" in each ? all[each.to % Math.max(1, all.length)]?.id : undefined;
          const session = sp.session(id, { branch });
          if (each.kind === "run") {
            const { steps, tools, asks } = each;
            await sp.run(worker, { session: id, branch, input: { steps, tools, asks } }).catch((error: Error) => {
              // The session waits with another input, or was saved by hand.
              expect(error).toMatchObject({ code: expect.stringMatching(/INPUT_MISMATCH|AGENT_FAILED/) as string });
            });
          } else if (each.kind === "save") await session.save({ steps: 1, tools: 0, done: all.length });
          else if (target === undefined) continue;
          else if (each.kind === "fork") branches.push((await session.fork(target)).branch);
          else if (each.kind === "pin") await session.pin(target);
          else if (each.kind === "label") await session.label(target, "label");
          else if (await session.head()) await session.rewind(target);
        }
        const states = new Map<string, unknown>();
        for (const info of await infos()) states.set(info.id, (await sp.session(id).load(info.id))?.state);
        const first = await sp.prune({ session: id, ...kept });
        const second = await sp.prune({ session: id, ...kept });
        expect(second).toMatchObject({ removed: 0, kept: first.kept });
        for (const info of await infos()) {
          expect((await sp.session(id).load(info.id))?.state).toEqual(states.get(info.id));
        }
        const stays = new Set(first.kept.map(({ seq }) => seq));
        for (const { neededBy = [] } of first.kept) {
          for (const need of neededBy) if (need.kind === "checkpoint") expect(stays.has(need.seq)).toBe(true);
        }
      }),
      { numRuns: 25, seed },
    );
  });
});
