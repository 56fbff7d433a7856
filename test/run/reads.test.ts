/** How often a run reads and writes its store: nothing is read that was just read or written. */
import { describe, expect, it, type TestContext } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import { openStore, type Store } from "../../src/store.js";
import type { Commit, ItemSpan } from "../../src/store/contract/contract.js";
import { createGate } from "../support/gate.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const LEASE = 30_000;

/** The calls of one phase. */
interface Calls {
  readonly get: number;
  readonly list: number;
  readonly items: number;
  readonly blob: number;
  readonly commit: number;
}

/** A store that counts its calls, and the records and items that are read although they were just read or written. */
class CountedStore {
  readonly store: Store;
  #calls: Record<string, number> = {};
  #known = new Set<string>();
  #repeated: string[] = [];

  constructor(target: Store) {
    const counted: Partial<Record<string, (...args: never[]) => void>> = {
      get: (keys: readonly string[]) => this.#read(keys),
      items: (spans: readonly ItemSpan[]) => this.#read(spans.flatMap(numbersOf)),
      commit: ({ puts = [], items = [] }: Commit) => {
        for (const { key } of puts) this.#known.add(key);
        for (const batch of items) {
          if (!("first" in batch)) continue;
          for (const item of numbersOf({ tape: batch.tape, start: batch.first, count: batch.items.length }))
            this.#known.add(item);
        }
      },
      list: () => {},
      blob: () => {},
    };
    this.store = new Proxy(target, {
      get: (_, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        return (...args: never[]): unknown => {
          const note = counted[String(name)];
          if (note) this.#calls[String(name)] = (this.#calls[String(name)] ?? 0) + 1;
          note?.(...args);
          return Reflect.apply(value, target, args);
        };
      },
    });
  }

  /** The calls since the last one of this method, and what was read more than once in that time. */
  take(): { calls: Calls; repeated: string[] } {
    const taken = {
      calls: { get: 0, list: 0, items: 0, blob: 0, commit: 0, ...this.#calls },
      repeated: this.#repeated,
    };
    [this.#calls, this.#known, this.#repeated] = [{}, new Set(), []];
    return taken;
  }

  #read(names: readonly string[]): void {
    for (const name of names) {
      if (this.#known.has(name)) this.#repeated.push(name);
      this.#known.add(name);
    }
  }
}

function numbersOf({ tape, start, count }: ItemSpan): string[] {
  return Array.from({ length: count }, (_, index) => `${tape}/${start + index}`);
}

const REPLY = "a reply that is stored as an item of its own, because it is long. ".repeat(20);

/** An agent of three steps, each with a model call and a tool. */
function createChat(onStep: () => void, tool: (step: number) => unknown) {
  return defineAgent({
    name: "chat",
    loop: false,
    initial: () => ({ step: 0, messages: [] as unknown[] }),
    receive: (state) => ({ ...state, step: 0 }),
    async step(run) {
      onStep();
      const { step } = run.state;
      run.state.messages.push(await run.llm(() => REPLY));
      run.state.messages.push(await run.tool({ id: `c${step}`, name: "tool" }, () => tool(step)));
      run.state.step++;
      return step === 2 ? run.complete() : undefined;
    },
  });
}

async function openPlace(context: TestContext, kind: string) {
  const folder = await makeFolder();
  context.onTestFinished(() => removeFolder(folder));
  let time = Date.parse("2026-01-01T00:00:00Z");
  const now = (): number => time;
  let shared: Store | undefined;
  const open = async (): Promise<{ sp: Savepoint; counted: CountedStore }> => {
    const store =
      kind === "memory:"
        ? (shared ??= await openStore(kind, { now }))
        : await openStore(`sqlite:${folder}/a.db`, { now });
    context.onTestFinished(() => store.close());
    const counted = new CountedStore(store);
    return {
      sp: await Savepoint.open(counted.store, { now, lease: LEASE, on: { backgroundFailure: () => {} } }),
      counted,
    };
  };
  return { open, expire: () => void (time += LEASE + 1) };
}

describe.each(["memory:", "sqlite:"])("a run on %s", (kind) => {
  it("reads each record once, and nothing that it has written", async (context) => {
    const { open, expire } = await openPlace(context, kind);
    const { sp, counted } = await open();
    const steps: ReturnType<CountedStore["take"]>[] = [];
    const agent = createChat(
      () => steps.push(counted.take()),
      () => REPLY,
    );
    // Reserves numbers for the next sessions, and reads the retention policies.
    await sp.run(agent, { session: "first", input: 1 });
    counted.take();
    steps.length = 0;
    await sp.run(agent, { session: "s", input: 1 });
    const start = { calls: { get: 1, list: 0, items: 0, blob: 0, commit: 1 }, repeated: [] };
    // The reply goes with the intent of the tool, its result with the state.
    const step = { calls: { get: 0, list: 0, items: 0, blob: 0, commit: 2 }, repeated: [] };
    expect(steps).toEqual([start, step, step]);
    // The inbox is read when a run ends.
    expect(counted.take()).toEqual({ ...step, calls: { ...step.calls, get: 1 } });
    steps.length = 0;
    await sp.run(agent, { session: "s", input: 2 });
    expect(steps).toEqual([start, step, step]);

    const reached = createGate();
    const hanging = createChat(
      () => {},
      (step) => {
        if (step < 2) return REPLY;
        reached.open();
        return new Promise(() => {});
      },
    );
    void sp.start(hanging, { session: "s", input: 3 });
    await reached.promise;
    expire();
    const other = await open();
    const opened = other.counted.take();
    // A store that does not outlive its process has no list of processes, in which the header of encrypted stores is.
    const read = kind === "memory:" ? { get: 1, list: 0 } : { get: 0, list: 1 };
    expect(opened.calls).toEqual({ ...read, items: 0, blob: 0, commit: 0 });
    const resumed: ReturnType<CountedStore["take"]>[] = [];
    await other.sp.run(
      createChat(
        () => resumed.push(other.counted.take()),
        () => REPLY,
      ),
      { session: "s" },
    );
    // The records of the branch, and of its owner; its state together with its journal, and the results that the state refers to.
    expect(resumed).toEqual([{ calls: { get: 2, list: 0, items: 2, blob: 0, commit: 1 }, repeated: [] }]);
  });
});
