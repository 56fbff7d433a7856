/** The status of a thread, as sessions show it. */
import {
  Annotation,
  Command,
  END,
  entrypoint,
  interrupt,
  Send,
  START,
  StateGraph,
  type StateSnapshot,
} from "@langchain/langgraph";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Savepoint } from "../../src/index.js";
import { SavepointSaver } from "../../src/integrations/langgraph/index.js";
import { runs } from "../support/runs.js";
import { until } from "../support/until.mjs";
import { DURABLE_STORES, useStore } from "./durable-stores.js";

const T = { configurable: { thread_id: "t" } };

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

type Step = (state: typeof State.State) => unknown;

/** A graph of one node after another. */
function line(checkpointer: SavepointSaver, ...steps: Step[]) {
  const builder = new StateGraph(State) as StateGraph<
    typeof State.spec,
    typeof State.State,
    typeof State.Update,
    string
  >;
  for (const [index, step] of steps.entries()) {
    builder.addNode(`n${index}`, async (state) => (await step(state)) as typeof State.Update);
    builder.addEdge(index === 0 ? START : `n${index - 1}`, `n${index}`);
  }
  builder.addEdge(`n${steps.length - 1}`, END);
  return builder.compile({ checkpointer });
}

const write =
  (text: string): Step =>
  () => ({ log: [text] });
const ask =
  (value: unknown): Step =>
  () => ({ log: [String(interrupt(value))] });

describe.each(DURABLE_STORES)("the status of a thread on $name", (kind) => {
  const store = useStore(kind);
  const saver = async (): Promise<SavepointSaver> => new SavepointSaver(await store.open());
  const shown = async (): Promise<[string | undefined, string | undefined]> => {
    const sp = await store.open();
    const info = await sp.sessions.load("t");
    expect(await sp.sessions.list().all()).toMatchObject(info ? [{ status: info.status, reason: info.reason }] : []);
    expect(info?.head).toMatchObject({ status: info?.status, reason: info?.reason });
    return [info?.status, info?.reason];
  };

  test("is completed when the graph has ended, and again after the next input", async () => {
    const graph = line(await saver(), write("a"), write("b"));
    await graph.invoke({ log: [] }, T);
    expect(await shown()).toEqual(["completed", undefined]);
    await graph.invoke({ log: ["x"] }, T);
    expect(await shown()).toEqual(["completed", undefined]);
    const statuses = (await (await store.open()).session("t").history().all()).map(({ status }) => status);
    expect(statuses).toEqual(["completed", "open", "open", "open", "completed", "open", "open", "open"]);
  });

  test("is open inside a step, because no lease shows who works on it", async () => {
    const seen: unknown[] = [];
    const graph = line(await saver(), write("a"), async () => {
      seen.push(await shown());
      return { log: [] };
    });
    await graph.invoke({ log: [] }, { ...T, durability: "sync" });
    expect(seen).toEqual([["open", undefined]]);
  });

  test("is waiting with its question where an interrupt is pending, and completed after the answer", async () => {
    const graph = line(await saver(), ask("Refund order 88?"), write("b"));
    await graph.invoke({ log: [] }, T);
    expect(await shown()).toEqual(["waiting", "Refund order 88?"]);
    const sp = await store.open();
    expect((await sp.sessions.list({ status: "waiting" }).all()).map(({ id, questions }) => [id, questions])).toEqual([
      ["t", []],
    ]);
    await line(await saver(), ask("Refund order 88?"), write("b")).invoke(new Command({ resume: "yes" }), T);
    expect(await shown()).toEqual(["completed", undefined]);
  });

  test("is open while an answer is worked on, and waiting again if the same node asks again", async () => {
    const graph = line(await saver(), async () => {
      const first = interrupt("first?") as string;
      // The graph does not wait until the answer is stored.
      await until(async () => (await shown())[0] === "open", "the thread to be open");
      const second = interrupt({ question: "second?", options: ["a", "b"] }) as string;
      return { log: [first, second] };
    });
    await graph.invoke({ log: [] }, { ...T, durability: "sync" });
    expect(await shown()).toEqual(["waiting", "first?"]);
    await graph.invoke(new Command({ resume: "1" }), { ...T, durability: "sync" });
    expect(await shown()).toEqual(["waiting", '{"question":"second?","options":["a","b"]}']);
    await graph.invoke(new Command({ resume: "2" }), { ...T, durability: "sync" });
    expect(await shown()).toEqual(["completed", undefined]);
  });

  test("is waiting if one of two parallel tasks asks, in whichever order they end", async () => {
    for (const [id, isSlow] of [
      ["t", false],
      ["t2", true],
    ] as const) {
      const graph = new StateGraph(State)
        .addNode("asks", () => ({ log: [String(interrupt("which?"))] }))
        .addNode("works", async () => {
          if (isSlow) await new Promise((resolve) => setImmediate(resolve));
          return { log: ["done"] };
        })
        .addEdge(START, "asks")
        .addEdge(START, "works")
        .compile({ checkpointer: await saver() });
      await graph.invoke({ log: [] }, { configurable: { thread_id: id } });
      expect(await (await store.open()).sessions.load(id)).toMatchObject({ status: "waiting", reason: "which?" });
    }
  });

  test("is failed with the error where a node has thrown, and completed after it was repaired", async () => {
    const broken = line(await saver(), write("a"), () => {
      throw new RangeError("no such order");
    });
    await expect(broken.invoke({ log: [] }, T)).rejects.toThrow("no such order");
    expect(await shown()).toEqual(["failed", "no such order"]);
    await line(await saver(), write("a"), write("b")).invoke(null, T);
    expect(await shown()).toEqual(["completed", undefined]);
  });

  test("is that of the whole graph if a subgraph asks", async () => {
    const inner = line(undefined as unknown as SavepointSaver, write("in"), ask("inside?"));
    const build = async () =>
      new StateGraph(State)
        .addNode("sub", inner)
        .addEdge(START, "sub")
        .addEdge("sub", END)
        .compile({ checkpointer: await saver() });
    await (await build()).invoke({ log: [] }, T);
    expect(await shown()).toEqual(["waiting", "inside?"]);
    const branches = await (await store.open()).session("t").branches().all();
    expect(branches.map(({ head }) => head?.status)).toEqual(["waiting", "waiting"]);
    await (await build()).invoke(new Command({ resume: "yes" }), T);
    expect(await shown()).toEqual(["completed", undefined]);
  });

  test("follows updateState", async () => {
    const graph = line(await saver(), write("a"), ask("sure?"), write("c"));
    await graph.invoke({ log: [] }, T);
    expect(await shown()).toEqual(["waiting", "sure?"]);
    await graph.updateState(T, { log: ["by hand"] }, "n1");
    expect(await shown()).toEqual(["open", undefined]);
    await graph.updateState(T, { log: ["last"] }, "n2");
    expect(await shown()).toEqual(["completed", undefined]);
    await graph.updateState(T, { log: ["again"] }, "n0");
    expect(await shown()).toEqual(["open", undefined]);
    await graph.updateState(T, null, END);
    expect(await shown()).toEqual(["completed", undefined]);
  });

  test("is known for an entrypoint, and with the durability exit", async () => {
    const flow = entrypoint({ name: "flow", checkpointer: await saver() }, async (input: string) => {
      const answer = interrupt(`${input}?`) as string;
      return answer;
    });
    await flow.invoke("well", { ...T, durability: "exit" });
    expect(await shown()).toEqual(["waiting", "well?"]);
    await flow.invoke(new Command({ resume: "yes" }), { ...T, durability: "exit" });
    expect(await shown()).toEqual(["completed", undefined]);
  });

  test("is copied with a thread, and found by a migration", async () => {
    const source = await saver();
    await line(source, ask("Refund?")).invoke({ log: [] }, T);
    await source.copyThread("t", "copy");
    const sp = await store.open();
    expect(await sp.sessions.load("copy")).toMatchObject({ status: "waiting", reason: "Refund?" });
    await using other = await Savepoint.open("memory:");
    await new SavepointSaver(other).migrateFrom(source);
    expect(await other.sessions.load("t")).toMatchObject({ status: "waiting", reason: "Refund?" });
    await line(source, ask("Refund?")).invoke(new Command({ resume: "yes" }), T);
    await source.copyThread("t", "done");
    expect(await sp.sessions.load("done")).toMatchObject({ status: "completed" });
  });

  test("is removed with its checkpoint, and is part of a bundle", async () => {
    const graph = line(await saver(), ask("one?"), write("b"));
    await graph.invoke({ log: [] }, T);
    const sp = await store.open();
    await using other = await Savepoint.open("memory:");
    await other.import(await sp.export({ session: "t" }).bytes());
    expect(await other.sessions.load("t")).toMatchObject({ status: "waiting", reason: "one?" });
    await graph.invoke(new Command({ resume: "yes" }), T);
    await sp.session("t").prune({ keepLast: 1 });
    expect(await sp.session("t").history().all()).toMatchObject([{ status: "completed" }]);
    expect((await sp.verify()).ok).toBe(true);
  });
});

/** A random graph: what each node does after it has run. */
const NODES = ["a", "b", "c", "d+e"] as const;
type Move = { readonly kind: "edge" | "branch" | "goto" | "send" | "end" | "throw" | "ask"; readonly to: number };
const moveOf = fc.record<Move>({
  kind: fc.constantFrom("edge", "branch", "goto", "send", "end", "throw", "ask"),
  to: fc.nat(NODES.length - 1),
});
const shapeOf = fc.record({
  moves: fc.array(moveOf, { minLength: NODES.length, maxLength: NODES.length }),
  starts: fc.uniqueArray(fc.nat(NODES.length - 1), { minLength: 1, maxLength: 2 }),
  join: fc.option(fc.uniqueArray(fc.nat(NODES.length - 1), { minLength: 3, maxLength: 3 }), { nil: undefined }),
  deferred: fc.option(fc.nat(NODES.length - 1), { nil: undefined }),
  stopBefore: fc.option(fc.nat(NODES.length - 1), { nil: undefined }),
  actions: fc.array(fc.constantFrom("input", "resume", "continue", "update", "clear", "copy"), { maxLength: 4 }),
});
type Shape = typeof shapeOf extends fc.Arbitrary<infer T> ? T : never;

function randomGraph({ moves, starts, join, deferred, stopBefore }: Shape, checkpointer: SavepointSaver) {
  const nameOf = (index: number): string => NODES[index % NODES.length] as string;
  const builder = new StateGraph(State) as StateGraph<
    typeof State.spec,
    typeof State.State,
    typeof State.Update,
    string
  >;
  for (const [index, { kind, to }] of moves.entries()) {
    const run = (): unknown => {
      if (kind === "throw") throw new Error(`${nameOf(index)} is broken`);
      if (kind === "ask") return { log: [String(interrupt("sure?"))] };
      return kind === "goto" ? new Command({ goto: nameOf(to), update: { log: ["went"] } }) : { log: [nameOf(index)] };
    };
    const options = { ends: [...NODES], ...(deferred === index && { defer: true }) };
    builder.addNode(nameOf(index), run as () => typeof State.Update, options);
    if (kind === "edge") builder.addEdge(nameOf(index), nameOf(to));
    if (kind === "branch") builder.addConditionalEdges(nameOf(index), () => nameOf(to));
    if (kind === "send") builder.addConditionalEdges(nameOf(index), () => [new Send(nameOf(to), { log: [] })]);
  }
  for (const start of starts) builder.addEdge(START, nameOf(start));
  if (join) builder.addEdge([nameOf(join[0] as number), nameOf(join[1] as number)], nameOf(join[2] as number));
  return builder.compile({ checkpointer, ...(stopBefore !== undefined && { interruptBefore: [nameOf(stopBefore)] }) });
}

test("a checkpoint is completed exactly if LangGraph has no next task for it, whatever the graph", async () => {
  let completed = 0;
  const property = fc.asyncProperty(shapeOf, async (shape) => {
    await using sp = await Savepoint.open("memory:");
    const graph = randomGraph(shape, new SavepointSaver(sp));
    const config = { ...T, recursionLimit: 6 };
    const attempt = async (work: () => Promise<unknown>): Promise<void> => void (await work().catch(() => undefined));
    await attempt(() => graph.invoke({ log: [] }, config));
    for (const action of shape.actions) {
      await attempt(async () => {
        if (action === "input") await graph.invoke({ log: ["more"] }, config);
        if (action === "resume") await graph.invoke(new Command({ resume: "yes" }), config);
        if (action === "continue") await graph.invoke(null, config);
        if (action === "update") await graph.updateState(T, { log: ["u"] }, NODES[shape.moves[0]?.to ?? 0]);
        if (action === "clear") await graph.updateState(T, null, END);
        if (action === "copy") await graph.updateState(T, null, "__copy__");
      });
    }
    const statuses = new Map<string, string>();
    for await (const { id, status } of sp.session("t").history({ allBranches: true })) statuses.set(id, status);
    const history: StateSnapshot[] = [];
    for await (const snapshot of graph.getStateHistory(T)) history.push(snapshot);
    for (const { config: at, next } of history) {
      const status = statuses.get(at.configurable?.["checkpoint_id"] as string);
      if (status === "completed") completed++;
      expect([next, status === "completed"]).toEqual([next, next.length === 0]);
    }
  });
  await fc.assert(property, { numRuns: runs(300, 30) });
  expect(completed).toBeGreaterThan(0);
});
