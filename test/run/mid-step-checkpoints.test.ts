/** Checkpoints in the middle of a step, and the commits that they cost. */
import { expect, it } from "vitest";
import { defineAgent, message, Savepoint } from "../../src/index.js";
import { openMemoryStore, type Commit } from "../../src/store.js";

const PARALLEL = 8;

it("a checkpoint in the middle of a step is one commit with the starts of all parallel tools, and has the state at that moment", async () => {
  const store = openMemoryStore();
  const commits: Commit[] = [];
  const commit = store.commit.bind(store);
  store.commit = (each) => {
    commits.push(each);
    return commit(each);
  };
  await using sp = await Savepoint.open(store);
  let before = 0;
  const commitsBeforeTools: number[] = [];
  const agent = defineAgent({
    name: "parallel",
    strategy: "afterLlmResponse",
    initial: () => ({ marked: false }),
    async step(run) {
      await run.llm(() => message.assistant("use the tools"));
      before = commits.length;
      const calls = Array.from({ length: PARALLEL }, (_, n) =>
        run.tool({ id: `call-${n}`, name: "work", arguments: { n } }, () => {
          // Not an assertion in here: its failure would be a result of the tool, and the step would be tried again.
          if (n === 0) commitsBeforeTools.push(commits.length - before);
          return n;
        }),
      );
      run.state.marked = true;
      await Promise.all(calls);
      return run.complete("done");
    },
  });
  const result = await sp.run(agent, { session: "s", input: undefined });
  expect(result.status).toBe("completed");
  expect(commitsBeforeTools).toEqual([1]);
  const inStep = await sp
    .session("s")
    .history()
    .all()
    .then((all) => all.find(({ trigger }) => trigger === "llmResponse"));
  expect((await sp.session("s").load({ seq: inStep?.seq ?? -1 }))?.state).toEqual({ marked: true });
});
