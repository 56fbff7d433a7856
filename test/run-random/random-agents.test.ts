import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Agent, isSavepointError, type RunResult, Savepoint } from "../../src/index.js";
import { decodeJournal, journalKey } from "../../src/records/index.js";
import { SessionReader } from "../../src/sessions/reader.js";
import { readEntries } from "../../src/runs/journal/entry.js";
import { RecordedEffects } from "../../src/runs/journal/recorded-effects.js";
import { ClassRegistry } from "../../src/state/tree/class-registry.js";
import { openMemoryStore } from "../../src/store/memory/store.js";
import { openSqliteStore } from "../../src/store/sqlite/index.js";
import type { Store } from "../../src/store/contract/contract.js";
import { chooseSeed } from "../support/seed.js";
import { agentOf, anyProgram, type Op, type Program, type ProgramState } from "./program.js";
import { type Blow, Victim, World } from "./world.js";
import { runs } from "../support/runs.js";

const LEASE = 30_000;
const SESSION = "s";
const MAX_LIVES = 60;

const anyBlow: fc.Arbitrary<Blow> = fc.record({
  at: fc.constantFrom("before commit", "after commit", "before effect", "after effect"),
  number: fc.integer({ min: 1, max: 12 }),
  wakes: fc.boolean(),
});

const anyLife = fc.record({
  program: anyProgram,
  strategy: fc.constantFrom("afterToolCall" as const, "everyStep" as const, "never" as const),
  blows: fc.array(anyBlow, { maxLength: 6 }),
  compacts: fc.boolean(),
  fork: fc.nat(),
});

describe.each([
  ["memory:", (now: () => number) => Promise.resolve(openMemoryStore({ now })), runs(400, 20)],
  ["sqlite::memory:", (now: () => number) => openSqliteStore(":memory:", { now }), runs(100, 6)],
] as const)("random agents that die and fall asleep, on %s", (_, openStore, numRuns) => {
  it(
    "a random agent reaches the same result wherever it dies, and never repeats a recorded effect",
    { timeout: 240_000 },
    async () => {
      const seed = chooseSeed();
      await fc.assert(
        fc.asyncProperty(anyLife, async (life) => {
          const clock = new Clock();
          const store = await openStore(clock.now);
          await live(store, clock, life);
          await store.close();
        }),
        {
          numRuns: Number(process.env["RUNS"] ?? numRuns),
          seed,
          timeout: 30_000,
          endOnFailure: process.env["NOSHRINK"] !== undefined,
        },
      );
    },
  );
});

/** A clock that advances only while a process waits. */
class Clock {
  #time = 1_700_000_000_000;
  readonly now = (): number => this.#time;

  pass(milliseconds: number): void {
    this.#time += milliseconds;
  }
}

interface Life {
  readonly program: Program;
  readonly strategy: "afterToolCall" | "everyStep" | "never";
  readonly blows: readonly Blow[];
  readonly compacts: boolean;
  readonly fork: number;
}

async function live(store: Store, clock: Clock, { program, strategy, blows, compacts, fork }: Life): Promise<void> {
  const expected = comparable(await undisturbed(program, strategy));
  const world = new World();
  const zombies: { victim: Victim; ending: Promise<string> }[] = [];
  const recordedBefore = new Map<string, number>();
  let result: RunResult | undefined;
  for (let lifetime = 0; result?.status !== "completed"; lifetime++) {
    if (lifetime > MAX_LIVES) throw new Error("It never ends.");
    const victim = new Victim(blows[lifetime]);
    const agent = agentOf(program, strategy, world, victim);
    // A process that is dead for good still tries to renew its lease when the store is closed.
    const on = { backgroundFailure: () => {} };
    const sp = await Savepoint.open(victim.storeOf(store), { now: clock.now, lease: LEASE, on });
    const running = sp.run(agent, { session: SESSION, input: 1 as never });
    const ending = running.then((ended) => (result = ended).status, codeOf);
    // Processes that only slept wake up while another process takes over, or before.
    const awake = zombies.splice(0).filter((zombie) => zombie.victim.wake());
    const outcome = await Promise.race([ending, victim.fallen.then(() => "fallen")]);
    for (const zombie of awake)
      expect(["LEASE_LOST", "ALREADY_RUNNING", "waiting", "completed"]).toContain(await zombie.ending);
    if (outcome === "fallen") {
      zombies.push({ victim, ending });
      if (compacts) await compact(store, clock);
      clock.pass(LEASE + 1);
    } else if (outcome !== "ALREADY_RUNNING") {
      expect(["waiting", "completed", "LEASE_LOST"]).toContain(outcome);
      // A process that dies now has done its work; another process does the rest.
      if (compacts) await compact(store, clock);
      const other = await Savepoint.open(store, { now: clock.now, lease: LEASE });
      if (outcome === "waiting") await attend(other, world, clock, result as unknown as RunResult);
      await other.close();
      await Promise.race([sp.close(), victim.fallen]);
    }
    for (const [name, count] of recordedBefore) {
      expect(world.done.get(name)?.length ?? 0, `${name} was recorded, and done again`).toBe(count);
    }
    for (const name of await recordedEffects(store)) recordedBefore.set(name, world.done.get(name)?.length ?? 0);
  }
  expect(result.output).toBe(program.length);
  expect(comparable(result.state)).toEqual(expected);
  checkCounts(program, world, blows.length);
  await checkFork(
    store,
    clock,
    agentOf(program, strategy, world, new Victim(undefined)),
    world,
    program,
    fork,
    expected,
  );
}

/** Collects garbage while runs are under way. */
async function compact(store: Store, clock: Clock): Promise<void> {
  const sp = await Savepoint.open(store, { now: clock.now, lease: LEASE });
  await sp.compact();
  await sp.close();
}

/** Answers, or lets time pass for, a run that waits. */
async function attend(sp: Savepoint, world: World, clock: Clock, result: RunResult): Promise<void> {
  if (result.status !== "waiting") return;
  if (result.wakeAt !== undefined) clock.pass(Math.max(0, result.wakeAt - clock.now()));
  for (const question of result.questions) {
    const name = question.call ? `${result.steps + 1}:${question.call.id}` : "";
    const answer = question.kind === "ask" ? `answer to ${question.text}` : await world.verdictOn(name);
    await sp.answer(SESSION, answer, { question: question.id, branch: result.branch });
  }
}

async function undisturbed(program: Program, strategy: Life["strategy"]): Promise<unknown> {
  const clock = new Clock();
  const world = new World();
  const sp = await Savepoint.open(openMemoryStore({ now: clock.now }), { now: clock.now });
  const agent = agentOf(program, strategy, world, new Victim(undefined));
  for (;;) {
    const result = await sp.run(agent, { session: SESSION, input: 1 as never });
    if (result.status !== "waiting") return result.state;
    await attend(sp, world, clock, result);
  }
}

/** The order of parallel effects may differ; their results may not. */
function comparable(state: unknown): unknown {
  const { order, ...rest } = state as ProgramState;
  return { ...rest, order: [...order].sort() };
}

/** The effects that the current step of the session has recorded. */
async function recordedEffects(store: Store): Promise<string[]> {
  const [record] = await store.get([journalKey(SESSION, "main")]);
  if (!record || !("value" in record)) return [];
  const { number, tape, first, count, boundary } = decodeJournal(record.value);
  const context = { store, registry: new ClassRegistry() } as unknown as SessionReader["context"];
  const reader = new SessionReader(context, SESSION);
  const { entries } = await readEntries(reader, number, { tape, start: first, count });
  const heads = await reader.heads("main");
  const { head } = heads.branch?.record ?? {};
  const row = head?.seq === boundary ? head : await reader.row(number, boundary);
  const step = row && "step" in row ? row.step + 1 : 0;
  return [...new RecordedEffects(entries).byIndex.values()]
    .filter(({ outcome, started }) => outcome && ["llm", "tool", "effect"].includes(started.kind))
    .map(({ started }) => `${step}:${started.callId ?? started.name}`);
}

/** Tools with the policy ask or verify are executed exactly once; the others once, and at most once more per death. */
function checkCounts(program: Program, world: World, deaths: number): void {
  const check = (op: Op, step: number): void => {
    if (op.do === "parallel") return op.branches.flat().forEach((each) => check(each, step));
    const keys = world.done.get(`${step}:${op.id}`) ?? [];
    if (op.do === "tool") {
      expect(new Set(keys).size, `The key of ${op.id} is stable`).toBe(1);
      if (op.policy !== "retry") expect(keys.length, `${op.id} was done once`).toBe(1);
    }
    if (op.do === "tool" || op.do === "llm" || op.do === "effect") {
      expect(keys.length, `${op.id} was done`).toBeGreaterThan(0);
      expect(keys.length, `${op.id} was done once, and once more per death`).toBeLessThanOrEqual(1 + deaths);
    }
  };
  for (const [at, ops] of program.entries()) for (const op of ops) check(op, at + 1);
}

/** A fork of any checkpoint reaches the same result. */
async function checkFork(
  store: Store,
  clock: Clock,
  agent: Agent,
  world: World,
  program: Program,
  pick: number,
  expected: unknown,
): Promise<void> {
  const sp = await Savepoint.open(store, { now: clock.now, lease: LEASE });
  const session = sp.session(SESSION);
  const history = await session.history().all();
  const from = history[pick % history.length];
  if (!from) throw new Error("There is no history.");
  const { branch } = await session.fork(from.id);
  for (let tries = 0; ; tries++) {
    if (tries > MAX_LIVES) throw new Error("It never ends.");
    const result = await sp.run(agent, { session: SESSION, branch, input: 1 as never });
    if (result.status === "waiting") {
      await attend(sp, world, clock, result);
      continue;
    }
    expect(result.output).toBe(program.length);
    expect(comparable(result.state)).toEqual(expected);
    break;
  }
  await sp.close();
}

function codeOf(error: unknown): string {
  if (isSavepointError(error)) return error.code;
  throw error;
}
