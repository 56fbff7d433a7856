import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { defineAgent } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";
import { codeOf, createGate, type Gate, transient, until } from "./lab.js";

/** An agent that works for ever, one tool per step; a tool waits for the gate, if there is one. */
function createWorker(gate?: Gate, strategy: "everyStep" | "never" = "everyStep") {
  const log: string[] = [];
  const agent = defineAgent({
    name: "worker",
    initial: (_input: string) => ({ steps: 0 }),
    strategy,
    async step(run) {
      await run.tool({ id: "1", name: "work" }, async () => {
        log.push("work");
        await (gate ? gate.promise : sleep(1));
      });
      run.state.steps++;
    },
  });
  return { agent, log };
}

const GO = { session: "s", input: "go" };

describe.each(STORES)("a session that is deleted while it runs, on $name", (kind) => {
  const data = useData(kind);

  describe.each(["the same", "another"] as const)("by %s Savepoint", (by) => {
    it("ends its run with SESSION_DELETED while a tool is under way", async () => {
      const gate = createGate();
      const { agent, log } = createWorker(gate);
      const runner = await data.open();
      const handle = await runner.start(agent, GO);
      const code = codeOf(handle.result());
      await until(() => log.length === 1, "the tool to begin");
      await (by === "another" ? await data.open() : runner).sessions.delete("s");
      gate.open();
      expect(await code).toBe("SESSION_DELETED");
      expect(await runner.sessions.load("s")).toBeUndefined();
    });

    it.each(["everyStep", "never"] as const)(
      "ends its run with SESSION_DELETED at the next write, with checkpoints %s",
      async (strategy) => {
        const runner = await data.open();
        const other = by === "another" ? await data.open() : runner;
        for (let session = 0; session < 4; session++) {
          const { agent, log } = createWorker(undefined, strategy);
          const handle = await runner.start(agent, { ...GO, session: `s${session}` });
          const code = codeOf(handle.result());
          await until(() => log.length > 2 + session, "the loop to take some turns");
          await other.sessions.delete(`s${session}`);
          expect(await code).toBe("SESSION_DELETED");
        }
      },
    );

    it("ends its run with SESSION_DELETED while a failed step is retried", async () => {
      const runner = await data.open();
      const other = by === "another" ? await data.open() : runner;
      const agent = defineAgent({
        name: "worker",
        initial: (_input: string) => ({ text: "x".repeat(10_000) }),
        retry: { attempts: 1000, delay: 10, factor: 1 },
        step: () => {
          throw transient("not yet");
        },
      });
      const retries = createGate();
      const code = codeOf(runner.run(agent, { ...GO, onEvent: ({ type }) => type === "retry" && retries.open() }));
      await retries.promise;
      await other.sessions.delete("s");
      expect(await code).toBe("SESSION_DELETED");
    });

    it("ends its run with SESSION_DELETED even if the session was started again", async () => {
      const gate = createGate();
      const { agent, log } = createWorker(gate);
      const runner = await data.open();
      const handle = await runner.start(agent, GO);
      const code = codeOf(handle.result());
      await until(() => log.length === 1, "the tool to begin");
      const other = by === "another" ? await data.open() : runner;
      await other.sessions.delete("s");
      await other.session("s").save({ steps: -1 });
      gate.open();
      expect(await code).toBe("SESSION_DELETED");
      expect((await other.session("s").latest())?.state).toEqual({ steps: -1 });
    });
  });
});
