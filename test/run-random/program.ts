/** Random agents: programs of effects in series and in parallel, and the results that they must reach. */
import fc from "fast-check";
import { type Agent, defineAgent, type Run, type UnknownPolicy } from "../../src/index.js";
import type { Victim, World } from "./world.js";

export type Op =
  | { readonly do: "llm"; readonly id: string; readonly size: number }
  | { readonly do: "tool"; readonly id: string; readonly policy: Exclude<UnknownPolicy, "fail"> }
  | { readonly do: "effect"; readonly id: string; readonly fails: boolean }
  | { readonly do: "value"; readonly id: string; readonly kind: "now" | "random" | "uuid" }
  | { readonly do: "sleep"; readonly id: string; readonly time: number }
  | { readonly do: "ask"; readonly id: string }
  | { readonly do: "parallel"; readonly id: string; readonly branches: readonly (readonly Op[])[] };

/** The steps of an agent. */
export type Program = readonly (readonly Op[])[];

export interface ProgramState {
  at: number;
  /** The results of each step, in the order of its program. */
  got: unknown[];
  /** The results in the order in which they arrived. */
  order: string[];
}

type Shape = { readonly op: Omit<Op, "id" | "branches"> } | { readonly parallel: readonly (readonly Shape[])[] };

const leaf: fc.Arbitrary<Shape> = fc
  .oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constant("llm" as const), size: fc.constantFrom(5, 400, 3000) }) },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("tool" as const),
        policy: fc.constantFrom("ask" as const, "retry" as const, "verify" as const),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("effect" as const), fails: fc.boolean() }) },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant("value" as const),
        kind: fc.constantFrom("now" as const, "random" as const, "uuid" as const),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("sleep" as const), time: fc.integer({ min: 1, max: 5000 }) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("ask" as const) }) },
  )
  .map((op) => ({ op }));

const shape: fc.Arbitrary<Shape> = fc.oneof(
  { weight: 4, arbitrary: leaf },
  {
    weight: 1,
    arbitrary: fc
      .array(fc.array(leaf, { minLength: 1, maxLength: 3 }), { minLength: 2, maxLength: 3 })
      .map((parallel) => ({ parallel })),
  },
);

export const anyProgram: fc.Arbitrary<Program> = fc
  .array(fc.array(shape, { maxLength: 4 }), { minLength: 1, maxLength: 4 })
  .map((steps) => steps.map((ops, step) => name(ops, `${step}`)));

function name(shapes: readonly Shape[], prefix: string): Op[] {
  return shapes.map((each, index) => {
    const id = `${prefix}.${index}`;
    if ("op" in each) return { ...each.op, id } as Op;
    return { do: "parallel", id, branches: each.parallel.map((branch, at) => name(branch, `${id}.${at}`)) };
  });
}

/** An agent that runs a program in a world. */
export function agentOf(
  program: Program,
  strategy: "afterToolCall" | "everyStep" | "never",
  world: World,
  victim: Victim,
): Agent {
  return defineAgent({
    name: "program",
    strategy,
    loop: false,
    initial: (): ProgramState => ({ at: 0, got: [], order: [] }),
    async step(run: Run<ProgramState>) {
      const ops = program[run.state.at];
      if (!ops) return run.complete(run.state.got.length);
      run.state.got.push(await inSeries(ops, run, { world, victim }));
      run.state.at++;
      return undefined;
    },
  }) as Agent;
}

/** The process that executes an effect, and its place. */
interface Place {
  readonly world: World;
  readonly victim: Victim;
}

async function inSeries(ops: readonly Op[], run: Run<ProgramState>, at: Place): Promise<unknown[]> {
  const got: unknown[] = [];
  for (const op of ops) {
    got.push(await perform(op, run, at));
    run.state.order.push(op.id);
  }
  return got;
}

async function perform(op: Op, run: Run<ProgramState>, at: Place): Promise<unknown> {
  const { world, victim } = at;
  const key = `${run.step}:${op.id}`;
  switch (op.do) {
    case "llm":
      return run.llm(() => world.happen(victim, key, `reply ${op.id} ${"x".repeat(op.size)}`), { name: op.id });
    case "tool": {
      const call = { id: op.id, name: `tool ${op.id}`, arguments: { id: op.id } };
      const verify = (): ReturnType<World["verdictOn"]> => world.verdictOn(key);
      return run.tool(call, ({ idempotencyKey }) => world.happen(victim, key, `result ${op.id}`, idempotencyKey), {
        onUnknown: op.policy,
        verify,
      });
    }
    case "effect":
      try {
        return await run.effect(op.id, async () => {
          const value = await world.happen(victim, key, `effect ${op.id}`);
          if (op.fails) throw new TypeError(`no ${op.id}`);
          return value;
        });
      } catch (error) {
        return `${(error as Error).name} ${(error as Error).message}`;
      }
    case "value": {
      run[op.kind]();
      return op.kind;
    }
    case "sleep":
      await run.sleep(op.time);
      return "slept";
    case "ask":
      return run.ask(`what about ${op.id}?`);
    case "parallel":
      return Promise.all(op.branches.map((branch) => inSeries(branch, run, at)));
  }
}
