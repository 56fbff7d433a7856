/** The effects of all steps of a session, and what a rewind may repeat. */
import { describe, expect, it } from "vitest";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { hostname } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  defineAgent,
  type JournalEntry,
  type JournalHole,
  Savepoint,
  type StoredClass,
  type Strategy,
} from "../../src/index.js";
import { formatWorker } from "../../src/runs/journal/journal.js";
import { seqOfRowKey } from "../../src/records/index.js";
import type { Store } from "../../src/store.js";
import { defineHanging } from "./hanging-child.mjs";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { ALL_KINDS, interruptIn, once as onceAgent, untilStatus, useLab, World } from "./lab.js";

/** Calls a model and, in every second step, a tool; completes after `steps` steps. */
function worker(strategy: Strategy, steps: number) {
  return defineAgent({
    name: "worker",
    strategy,
    initial: () => ({ n: 0 }),
    async step(run) {
      const n = ++run.state.n;
      await run.llm(() => ({ content: `reply ${n} ${"x".repeat(300)}` }), { usage: () => ({ tokens: n, cost: 0.5 }) });
      if (n % 2 === 0) await run.tool({ id: `c${n}`, name: "charge", arguments: { n } }, () => `charged ${n}`);
      if (n === steps) return run.complete(n);
    },
  });
}

const brief = (entries: readonly (JournalEntry | JournalHole)[]): string[] =>
  entries.map((entry) =>
    entry.kind === "hole" ? "hole" : `${entry.step}.${entry.index} ${entry.name} ${entry.outcome}`,
  );

const all = async (sp: Savepoint, order?: "newest"): Promise<(JournalEntry | JournalHole)[]> =>
  sp.journal("s", { all: true, ...(order && { order }) }).all();

const FIVE_STEPS = [
  "1.0 llm recorded",
  "2.0 llm recorded",
  "2.1 charge recorded",
  "3.0 llm recorded",
  "4.0 llm recorded",
  "4.1 charge recorded",
  "5.0 llm recorded",
];

/** Milliseconds, less than the lease. */
const PAUSE = 20_000;

describe.each(ALL_KINDS)("the effects of all steps on $name", (kind) => {
  const lab = useLab(kind);

  it.each<Strategy>(["everyStep", "afterToolCall", "afterLlmResponse", "never", { everyN: 2 }])(
    "are listed once, whichever checkpoints stay in the history: %j",
    async (strategy) => {
      const sp = await lab.open();
      await sp.run(worker(strategy, 5), { session: "s", input: undefined });
      expect(brief(await all(sp))).toEqual(FIVE_STEPS);
      expect(brief(await all(sp, "newest"))).toEqual([...FIVE_STEPS].reverse());
      await sp.compact();
      expect(brief(await all(sp))).toEqual(FIVE_STEPS);
      expect((await sp.verify({ deep: true })).ok).toBe(true);
    },
  );

  it("have times, usage, attempts, the process and the checkpoint that lists them", async () => {
    const sp = await lab.open();
    let tries = 0;
    const agent = defineAgent({
      name: "a",
      initial: () => ({}),
      async step(run) {
        const flaky = (): string => {
          if (++tries === 1) throw Object.assign(new Error("busy"), { status: 503 });
          return "done";
        };
        await run.tool({ id: "c1", name: "flaky", arguments: { big: "y".repeat(100) } }, flaky, {
          retry: { attempts: 3, delay: 1 },
        });
        return run.complete(await run.llm(() => "hi", { usage: () => ({ tokens: 7 }) }));
      },
    });
    await sp.run(agent, { session: "s", input: undefined });
    const [tool, llm] = (await all(sp)) as JournalEntry[];
    expect(tool).toMatchObject({
      turn: 1,
      step: 1,
      attempts: 2,
      value: "done",
      worker: undefined,
    });
    expect(tool?.duration).toBeGreaterThanOrEqual(0);
    expect(llm).toMatchObject({ attempts: 1, usage: { tokens: 7 }, worker: undefined });
    const head = await sp.session("s").head();
    expect(llm?.checkpoint).toEqual({ seq: head?.seq, id: head?.id });
    const [short] = await sp.session("s").journal({ all: true, values: 10, limit: 1 }).all();
    expect(short).toMatchObject({ arguments: '{"big":"yy…', value: "done" });
    const [none] = await sp.session("s").journal({ all: true, values: "none" }).all();
    expect(none).toMatchObject({ arguments: undefined, value: undefined, outcome: "recorded" });
  });

  it("include those of the unfinished step, and name what settled an unknown outcome", async () => {
    const sp = await lab.open();
    const never = new Promise<never>(() => {});
    const started = { resolve: (): void => {} };
    const isStarted = new Promise<void>((resolve) => (started.resolve = resolve));
    let hangs = true;
    const agent = defineAgent({
      name: "a",
      strategy: "never",
      initial: () => ({ n: 0 }),
      async step(run) {
        if (++run.state.n === 1) return void (await run.effect("first", () => 1));
        const hang = (): unknown => (hangs ? (started.resolve(), never) : "again");
        return run.complete(await run.tool({ id: "c1", name: "pay", arguments: {} }, hang));
      },
    });
    const handle = await sp.start(agent, { session: "s", input: undefined });
    void handle.result().catch(() => {});
    await isStarted;
    expect(brief(await all(sp))).toEqual(["1.0 first recorded", "2.0 pay running"]);
    lab.crash();
    hangs = false;
    const other = await lab.open();
    expect(brief(await all(other))).toEqual(["1.0 first recorded", "2.0 pay unknown"]);
    expect(await other.run(agent, { session: "s", resume: true })).toMatchObject({ status: "waiting" });
    lab.advance(5000);
    await other.answer("s", { happened: true, result: "paid" });
    expect(await other.run(agent, { session: "s", resume: true })).toMatchObject({ output: "paid" });
    const entries = await all(other);
    expect(brief(entries)).toEqual(["1.0 first recorded", "2.0 pay recorded"]);
    expect(entries[1]).toMatchObject({ settledBy: "answer", value: "paid" });
    // The time until the answer is no time of the tool.
    expect((entries[1] as JournalEntry).duration).toBeUndefined();
  });

  it("are kept by an export and an import", async () => {
    const sp = await lab.open();
    await sp.run(worker("afterToolCall", 5), { session: "s", input: undefined });
    const before = await all(sp);
    const bundle: Uint8Array[] = [];
    for await (const part of sp.export({ session: "s" })) bundle.push(part);
    await sp.sessions.delete("s");
    await sp.import(bundle);
    const ids = (entries: readonly (JournalEntry | JournalHole)[]): unknown[] =>
      entries.map(({ checkpoint, ...entry }) => ({ ...entry, seq: checkpoint?.seq }));
    expect(ids(await all(sp))).toEqual(ids(before));
  });

  it("of a pruned checkpoint are removed with it, and the rest stays intact", async () => {
    const sp = await lab.open();
    await sp.run(worker("everyStep", 5), { session: "s", input: undefined });
    await sp.prune({ session: "s", keepLast: 2 });
    await sp.compact();
    expect(brief(await all(sp))).toEqual(FIVE_STEPS.slice(4));
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });
});

it("the processes before and after a takeover are named in the effects of the session", async () => {
  const folder = await makeFolder();
  const url = `sqlite:${join(folder, "store.db")}`;
  const child = spawn(process.execPath, [fileURLToPath(new URL("./hanging-child.mjs", import.meta.url)), url], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exit = once(child, "exit");
  try {
    await Promise.race([once(child.stdout, "data"), exit.then(() => expect.fail("the child has ended"))]);
    child.kill("SIGKILL");
    await exit;
    await using sp = await Savepoint.open(url);
    const daemon = sp.worker([defineHanging(defineAgent, () => "done")], { poll: 10, signals: false });
    await daemon.start();
    await untilStatus(sp, "completed");
    await daemon.stop();
    const [theirs, ours] = [child.pid as number, process.pid].map((pid) => formatWorker({ host: hostname(), pid }));
    const workers = (await all(sp)).map((entry) => entry.kind !== "hole" && [entry.step, entry.name, entry.worker]);
    expect(workers).toEqual([
      [1, "first", theirs],
      [2, "before", theirs],
      [2, "hangs", ours],
      [3, "last", ours],
    ]);
  } finally {
    child.kill("SIGKILL");
    await removeFolder(folder);
  }
});

it("the name of a process adds at most 20 bytes to an entry, and distinguishes replicas", () => {
  const names = ["web-7f9c8d-x2k4j.pods.internal", "web-7f9c8d-q8z1m.pods.internal"].map((host) =>
    formatWorker({ host, pid: 4_194_304 }),
  );
  expect(new Set(names).size).toBe(2);
  for (const name of names) expect(`,"h":${JSON.stringify(name)}`.length).toBeLessThanOrEqual(20);
});

describe("tool calls after a checkpoint", () => {
  const lab = useLab(ALL_KINDS[0] as (typeof ALL_KINDS)[number]);

  it("are reported by a rewind, and not listed on the rewound branch any more", async () => {
    const sp = await lab.open();
    const agent = worker("everyStep", 5);
    await sp.run(agent, { session: "s", input: undefined });
    const session = sp.session("s");
    const third = (await session.load({ step: 3 })) ?? expect.fail();
    const expected = [{ name: "charge", callId: "c4", arguments: '{"n":4}', step: 4, outcome: "recorded" }];
    expect(await session.effectsAfter(third.id)).toMatchObject(expected);
    expect(await session.effectsAfter({ step: 1 })).toHaveLength(2);
    const head = (await session.head()) ?? expect.fail();
    const rewound = await session.rewind(third.id);
    expect(rewound.effectsAfter).toMatchObject(expected);
    expect(brief(await all(sp))).toEqual(FIVE_STEPS.slice(0, 4));
    await sp.run(agent, { session: "s", resume: true });
    expect(brief(await all(sp))).toEqual(FIVE_STEPS);
    expect((await sp.session("s").rewind(head.id)).effectsAfter).toHaveLength(1);
    expect(brief(await all(sp))).toEqual(FIVE_STEPS);
  });

  it("in many steps without checkpoints are listed page by page, in both orders", async () => {
    const sp = await lab.open();
    await sp.run(worker("never", 200), { session: "s", input: undefined });
    const entries = await all(sp);
    expect(entries).toHaveLength(300);
    expect((await all(sp, "newest")).reverse()).toEqual(entries);
    expect(await sp.session("s").effectsAfter({ step: 0 })).toHaveLength(100);
  });

  it("inside a step are listed once after a rewind into the step", async () => {
    const sp = await lab.open();
    const agent = defineAgent({
      name: "a",
      initial: () => ({}),
      async step(run) {
        for (const id of ["c1", "c2", "c3"]) await run.tool({ id, name: "send", arguments: {} }, () => id);
        return run.complete();
      },
    });
    await sp.run(agent, { session: "s", input: undefined });
    const session = sp.session("s");
    const listed = ["1.0 send recorded", "1.1 send recorded", "1.2 send recorded"];
    expect(brief(await all(sp))).toEqual(listed);
    const [middle] = (await session.history().all()).filter(({ trigger }) => trigger === "toolCall").slice(-1);
    const rewound = await session.rewind(middle?.id as string);
    expect(rewound.effectsAfter.map(({ callId }) => callId)).toEqual(["c2", "c3"]);
    expect(brief(await all(sp))).toEqual(listed.slice(0, 1));
    await sp.run(agent, { session: "s", resume: true });
    expect(brief(await all(sp))).toEqual(listed);
    await sp.compact();
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });

  it("that a step resumes with after a rewind are listed if the checkpoints that listed them were pruned", async () => {
    const sp = await lab.open();
    const agent = onceAgent(async (run) => {
      await run.llm(() => "reply");
      await run.ask("Go on?");
      await run.llm(() => "last reply");
    }, 3);
    await sp.run(agent, { session: "s", input: "go" });
    const session = sp.session("s");
    const waiting = await session.head();
    await session.rewind({ seq: 0 });
    await session.rewind(waiting?.id as string);
    await sp.run(agent, { session: "s", resume: true });
    const listed = ["1.0 llm recorded", "1.1 Go on? running"];
    expect(brief(await all(sp))).toEqual(listed);
    const counts = async (): Promise<number[]> =>
      (await session.activity({ order: "oldest" }).all()).map(({ activity }) => activity?.effects ?? 0);
    expect((await counts()).reduce((sum, each) => sum + each)).toBe(2);
    await sp.prune({ session: "s", keepLast: 1 });
    expect(brief(await all(sp))).toEqual(listed);
    expect(brief(await all(sp, "newest"))).toEqual([...listed].reverse());
    expect(await counts()).toEqual([0, 2]);
    await sp.answer("s", "yes");
    await sp.run(agent, { session: "s" });
    await sp.prune({ session: "s", keepLast: 1 });
    expect(brief(await all(sp))).toEqual(["1.0 llm recorded", "1.1 Go on? recorded", "1.2 llm recorded"]);
    await sp.compact();
    expect(brief(await all(sp))).toHaveLength(3);
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });

  it("with instances of a class that is not registered are listed, and do not prevent a rewind", async () => {
    class Money {
      constructor(readonly amount: number) {}
    }
    const money: StoredClass<Money, number> = {
      name: "Money",
      class: Money,
      encode: ({ amount }) => amount,
      decode: (amount) => new Money(amount),
    };
    const agent = defineAgent({
      name: "a",
      initial: () => ({}),
      async step(run) {
        await run.tool({ id: "c1", name: "pay", arguments: { sum: new Money(3) } }, () => new Money(4));
        if (run.session === "asks") await run.ask({ text: "Continue?", data: { paid: new Money(4) } });
        return run.complete();
      },
    });
    const sp = await lab.open({ classes: [money] });
    for (const session of ["s", "asks"]) await sp.run(agent, { session, input: undefined });
    const other = await lab.open();
    const session = other.session("asks");
    expect(await session.effectsAfter({ step: 0 })).toMatchObject([{ name: "pay", callId: "c1", arguments: "" }]);
    expect((await session.activity().all())[0]?.activity).toMatchObject({ tools: [{ name: "pay" }] });
    expect((await session.rewind({ step: 0 })).effectsAfter).toMatchObject([{ name: "pay" }]);
    const [listed] = (await all(other)) as JournalEntry[];
    expect(listed).toMatchObject({ name: "pay", callId: "c1", outcome: "recorded", arguments: undefined });
    expect(listed?.holes.map(({ path }) => path)).toEqual(["/arguments", "/value"]);
    expect(listed?.holes[0]?.reason).toContain("Money");
  });

  it("that were started before a checkpoint and settled after it count as effects after it", async () => {
    const agent = defineAgent({
      name: "a",
      initial: () => ({}),
      async step(run) {
        await run.tool({ id: "c0", name: "look", arguments: {} }, () => 1);
        await run.tool({ id: "c1", name: "pay", arguments: { sum: 3 } }, () => new Promise<never>(() => {}));
        return run.complete();
      },
    });
    await (await lab.open()).start(agent, { session: "s", input: undefined });
    await lab.idle();
    lab.crash();
    const sp = await lab.open();
    expect(await sp.run(agent, { session: "s" })).toMatchObject({ status: "waiting" });
    const asked = await sp.session("s").latest();
    const session = sp.session("s");
    expect(await session.effectsAfter(asked?.id as string)).toEqual([]);
    await sp.answer("s", { happened: true, result: "paid" });
    await sp.run(agent, { session: "s" });
    expect(await session.effectsAfter(asked?.id as string)).toMatchObject([
      { name: "pay", callId: "c1", arguments: '{"sum":3}', outcome: "recorded" },
    ]);
  });

  it("name the process of a worker in every step: in both orders, after a prune, and in the current step", async () => {
    const sp = await lab.open();
    const agent = defineAgent({
      name: "a",
      initial: () => ({ n: 0 }),
      async step(run) {
        await run.effect("work", () => ++run.state.n);
        if (run.state.n === 4) await run.ask("go on?");
      },
    });
    const daemon = sp.worker([agent], { poll: 10, signals: false });
    await daemon.start();
    await sp.enqueue(agent, { session: "s", input: undefined });
    await untilStatus(sp, "waiting");
    await daemon.stop();
    const workers = (entries: readonly (JournalEntry | JournalHole)[]): unknown[] =>
      entries.map((entry) => (entry as JournalEntry).worker);
    const name = formatWorker({ host: hostname(), pid: process.pid });
    expect(workers(await all(sp))).toEqual(Array(5).fill(name));
    expect(workers(await all(sp, "newest"))).toEqual(Array(5).fill(name));
    expect(workers(await sp.journal("s").all())).toEqual([name, name]);
    await sp.prune({ session: "s", keepLast: 1 });
    expect(workers(await all(sp))).not.toContain(undefined);
  });

  it("of a model have the text and the tool calls of the reply on one line, in the formats of common SDKs", async () => {
    const sp = await lab.open();
    const call = { id: "c1", name: "pay", arguments: { order: 88 } };
    const replies: [unknown, string | undefined][] = [
      ["Order 88\nis paid.", "Order 88 is paid."],
      [{ role: "assistant", content: "", toolCalls: [call] }, 'calls pay({"order":88})'],
      [
        {
          content: [
            { type: "text", text: "I pay." },
            { type: "tool-call", toolCallId: "c1", toolName: "pay", input: '{"order":88}' },
          ],
          finishReason: "tool-calls",
        },
        'I pay.; calls pay({"order":88})',
      ],
      [
        { content: [{ type: "tool_use", id: "c1", name: "pay", input: { order: 88n } }] },
        'calls pay({"order":{"$bigint":"88"}})',
      ],
      [
        {
          choices: [
            { message: { role: "assistant", tool_calls: [{ id: "c1", function: { name: "pay", arguments: "{}" } }] } },
          ],
        },
        "calls pay({})",
      ],
      [{ answer: 42 }, undefined],
      [undefined, undefined],
    ];
    const agent = onceAgent(async (run) => {
      for (const [reply] of replies) await run.llm(() => reply);
    }, 3);
    await sp.run(agent, { session: "s", input: "go" });
    const listed = (await sp.journal("s", { all: true, values: 5 }).all()) as JournalEntry[];
    expect(listed.map(({ reply }) => reply)).toEqual(replies.map(([, line]) => line));
    const [none] = (await sp.journal("s", { all: true, values: "none" }).all()) as JournalEntry[];
    expect(none?.reply).toBeUndefined();
  });

  it("are reported by a rewind with arguments that JSON cannot express", async () => {
    const sp = await lab.open();
    const agent = onceAgent(async (run) => {
      await run.tool({ id: "c1", name: "pay", arguments: { cents: 88n } }, () => "paid");
    }, 3);
    await sp.run(agent, { session: "s", input: "go" });
    const { effectsAfter } = await sp.session("s").rewind({ seq: 0 });
    expect(effectsAfter).toMatchObject([{ name: "pay", arguments: '{"cents":{"$bigint":"88"}}' }]);
  });

  it("are summarised for each checkpoint with the reply, the usage and the duration", async () => {
    const sp = await lab.open();
    await sp.run(worker("afterToolCall", 3), { session: "s", input: undefined });
    const [last, second, first] = await sp.session("s").activity().all();
    expect(first?.activity).toBeUndefined();
    expect(second?.activity).toMatchObject({ tools: [{ name: "charge" }], usage: { tokens: 3, cost: 1 }, effects: 3 });
    expect(last?.activity).toMatchObject({ tools: [], effects: 1, isPartial: false });
    expect(last?.activity?.reply).toMatch(/^reply 3 x/);
  });

  it("are summarised with the time of their execution, without the time between them and until an answer", async () => {
    const sp = await lab.open();
    const agent = defineAgent({
      name: "a",
      initial: () => ({}),
      async step(run) {
        await run.llm(() => "hi");
        lab.advance(PAUSE);
        await run.tool({ id: "c1", name: "charge" }, () => "done");
        return run.complete(await run.ask("?"));
      },
    });
    await sp.run(agent, { session: "s", input: undefined });
    lab.advance(PAUSE);
    await sp.answer("s", "yes");
    await sp.run(agent, { session: "s" });
    const durations = (await sp.session("s").activity().all()).map(({ activity }) => activity?.duration ?? 0);
    expect(Math.max(...durations)).toBeLessThan(PAUSE);
  });
});

describe.each(ALL_KINDS)("the effects of interrupted, changed and damaged steps on $name", (kind) => {
  const lab = useLab(kind);

  it.each([
    ["an entry", '"c":"c2"', ["1.0 llm recorded", "hole", ...FIVE_STEPS.slice(3)]],
    ["a result that is stored beside its entry", '"reply 3', FIVE_STEPS],
  ] as const)("have a hole where %s is damaged, and the rest is listed", async (_, damaged, expected) => {
    await (await lab.open()).run(worker("everyStep", 5), { session: "s", input: undefined });
    const sp = await Savepoint.open(damageItems(lab.store(), damaged), { now: lab.now });
    expect(brief(await all(sp))).toEqual(expected);
    expect(brief(await all(sp, "newest"))).toEqual([...expected].reverse());
    const entries = await all(sp);
    if (expected === FIVE_STEPS) {
      expect(entries[3]).toMatchObject({ kind: "llm", holes: [{ path: "/value", reason: "it is damaged" }] });
      expect(entries[4]).toMatchObject({ holes: [] });
    } else {
      expect(entries[1]).toMatchObject({ kind: "hole", turn: 1, reason: "it is damaged" });
      const { seq } = (entries[1] as JournalHole).checkpoint ?? expect.fail();
      const activities = await sp.session("s").activity().all();
      expect(activities.find((each) => each.seq === seq)?.activity).toMatchObject({ isPartial: true });
    }
  });

  it("have a hole where the checkpoint that lists them is damaged", async () => {
    const intact = await lab.open();
    await intact.run(worker("everyStep", 5), { session: "s", input: undefined });
    const third = (await intact.session("s").load({ step: 3 })) ?? expect.fail();
    const sp = await Savepoint.open(damageRow(lab.store(), third.seq), { now: lab.now, on: { damage: () => {} } });
    const expected = [...FIVE_STEPS.slice(0, 3), "hole", ...FIVE_STEPS.slice(4)];
    const entries = await all(sp);
    expect(brief(entries)).toEqual(expected);
    expect(entries[3]).toMatchObject({ reason: `checkpoint #${third.seq}: it is damaged`, turn: 1 });
    expect(brief(await all(sp, "newest"))).toEqual([...expected].reverse());
  });

  it("have one hole before the entries that can still be found in a long range without checkpoints", async () => {
    await (await lab.open()).run(worker("never", 200), { session: "s", input: undefined });
    const sp = await Savepoint.open(damageItems(lab.store(), '"c":"c50"'), { now: lab.now });
    const listed = brief(await all(sp));
    expect(listed.filter((entry) => entry === "hole")).toHaveLength(1);
    const at = listed.indexOf("hole");
    expect(listed.slice(at + 1, at + 3)).toEqual(["51.0 llm recorded", "52.0 llm recorded"]);
    expect(listed.at(-1)).toBe("200.1 charge recorded");
    expect((await all(sp, "newest")).reverse()).toEqual(await all(sp));
  });

  it("are listed from before and after a restart of the step, and a tool call that is kept only once", async () => {
    const world = new World();
    const agentOf = (isChanged: boolean) =>
      defineAgent({
        name: "a",
        // No checkpoint lists the entries from before the restart.
        strategy: "never",
        initial: (_input: string) => ({}),
        async step(run) {
          if (isChanged) await run.effect("new", () => world.do("new"));
          else await run.llm(() => "a reply");
          await run.tool({ id: "c1", name: "pay", arguments: {} }, () => world.do("pay", "paid"));
          return run.complete(await run.effect("last", () => world.do("last")));
        },
      });
    await interruptIn(lab, await lab.open(), agentOf(false), "go", world, "last");
    const sp = await lab.open();
    await sp.run(agentOf(true), { session: "s", input: "go", restartStep: true });
    expect(world.log).toEqual(["pay", "last", "new", "last"]);
    const expected = ["1.0 llm recorded", "1.1 pay recorded", "1.0 new recorded", "1.2 last recorded"];
    expect(brief(await all(sp))).toEqual(expected);
    expect(brief(await all(sp, "newest"))).toEqual([...expected].reverse());
    await sp.compact();
    expect(brief(await all(sp))).toEqual(expected);
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });

  it("include those of a turn of an open run that was abandoned, with their turn", async () => {
    const world = new World();
    const options = { session: "s", agent: "shop", initial: () => ({}) };
    const first = await (await lab.open()).openRun({ ...options, turn: "one" });
    await first.tool({ id: "c1", name: "charge", arguments: {} }, () => "charged");
    await first.stepDone();
    await first.llm(() => "a reply", { input: [] });
    const isHanging = world.hangIn("mail");
    first.tool({ id: "c2", name: "mail", arguments: {} }, () => world.do("mail")).catch(() => {});
    await isHanging;
    await lab.idle();
    lab.crash();
    const sp = await lab.open();
    const second = await sp.openRun({ ...options, turn: "two", abandon: true });
    await second.llm(() => "another reply", { input: [] });
    await second.complete("done");
    const entries = (await all(sp)) as JournalEntry[];
    expect(entries.map(({ turn, name, outcome }) => `${turn} ${name} ${outcome}`)).toEqual([
      "1 charge recorded",
      "1 llm recorded",
      "1 mail unknown",
      "2 llm recorded",
    ]);
    expect(await sp.session("s").effectsAfter({ step: 0 })).toMatchObject([{ callId: "c1" }, { callId: "c2" }]);
    await sp.compact();
    expect(await all(sp)).toEqual(entries);
  });

  it.each([
    ["verify", true],
    ["verify", false],
    ["answer", true],
    ["answer", false],
  ] as const)("name that %s settled an unknown outcome; happened: %s", async (by, happened) => {
    const world = new World();
    const verdict = happened ? { happened, result: "found" } : { happened };
    const policy = by === "verify" ? { onUnknown: by, verify: () => verdict as never } : { onUnknown: "ask" as const };
    const agent = onceAgent((run) =>
      run.tool({ id: "c1", name: "pay", arguments: {} }, () => world.do("pay", "paid"), policy),
    );
    await interruptIn(lab, await lab.open(), agent, "go", world, "pay");
    const sp = await lab.open();
    if (by === "answer") {
      expect(await sp.run(agent, { session: "s", resume: true })).toMatchObject({ status: "waiting" });
      await sp.answer("s", verdict);
      if (!happened) expect(await all(sp)).toMatchObject([{ outcome: "again", settledBy: "answer" }]);
    }
    expect(await sp.run(agent, { session: "s", resume: true })).toMatchObject({
      output: happened ? "found" : "paid",
    });
    expect(await all(sp)).toMatchObject([
      happened
        ? { name: "pay", outcome: "recorded", settledBy: by, value: "found" }
        : { name: "pay", outcome: "recorded", settledBy: by === "answer" ? by : undefined, value: "paid" },
    ]);
  });

  it("of a fork are those up to the fork and its own, and the original branch keeps its own", async () => {
    const sp = await lab.open();
    const agent = worker("everyStep", 5);
    await sp.run(agent, { session: "s", input: undefined });
    const fork = await sp.session("s").fork({ step: 3 }, { branch: "other" });
    const listed = async (branch: string): Promise<(JournalEntry | JournalHole)[]> =>
      sp.session("s", { branch }).journal({ all: true }).all();
    expect(brief(await listed("other"))).toEqual(FIVE_STEPS.slice(0, 4));
    expect(await sp.session("s").effectsAfter({ step: 3 })).toMatchObject([{ callId: "c4" }]);
    expect(await fork.effectsAfter({ step: 3 })).toEqual([]);
    await sp.run(worker("everyStep", 6), { session: "s", branch: "other", resume: true });
    const own = [...FIVE_STEPS, "6.0 llm recorded", "6.1 charge recorded"];
    expect(brief(await listed("other"))).toEqual(own);
    expect(brief(await listed("main"))).toEqual(FIVE_STEPS);
    const [main, other] = [await listed("main"), await listed("other")];
    expect(other.slice(0, 4)).toEqual(main.slice(0, 4));
    expect(other[4]?.checkpoint).not.toEqual(main[4]?.checkpoint);
    await sp.compact();
    expect(brief(await listed("other"))).toEqual(own);
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });
});

/** A store on the same data in which the items that contain a text are damaged. */
function damageItems(store: Store, text: string): Store {
  return override(store, {
    items: async (spans) =>
      (await store.items(spans)).map((item) => ("json" in item && item.json.includes(text) ? DAMAGED : item)),
  });
}

/** A store on the same data in which the row of a checkpoint is damaged. */
function damageRow(store: Store, seq: number): Store {
  const isDamaged = (key: string): boolean => key.startsWith("z") && seqOfRowKey(key) === seq;
  const damage = <T extends { readonly key: string } | undefined>(records: readonly T[]) =>
    records.map((record) => (record && isDamaged(record.key) ? { key: record.key, ...DAMAGED } : record));
  return override(store, {
    get: async (keys) => damage(await store.get(keys)),
    list: async (range, options) => damage(await store.list(range, options)),
  });
}

const DAMAGED = { unreadable: "it is damaged" };

function override(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(name in methods ? methods : target, name);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
