/** A run whose process was killed in the middle of a step. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect } from "vitest";
import { type Agent, defineAgent } from "../../src/index.js";

/** The name of the agent, and of the effect in which its process dies. */
const NAME = "agent";
const DEADLY = "die";

/** Runs session `s` in another process, which dies in the step after so many steps. Needs `dist/`. */
export async function crashRun(url: string, steps: number): Promise<void> {
  const program = `
    const { defineAgent, Savepoint } = await import(${JSON.stringify(new URL("../../dist/index.js", import.meta.url).href)});
    const sp = await Savepoint.open(${JSON.stringify(url)}, { durability: "process" });
    const agent = defineAgent({
      name: ${JSON.stringify(NAME)},
      initial: () => ({ done: 0, replies: [] }),
      async step(run) {
        run.state.replies.push(await run.llm(() => "reply " + run.state.done));
        if (run.state.done++ === ${steps}) await run.effect(${JSON.stringify(DEADLY)}, () => process.kill(process.pid, "SIGKILL"));
      },
    });
    await sp.run(agent, { session: "s", input: 1 });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: "inherit" });
  const [, signal] = (await once(child, "close")) as [number | null, string | null];
  expect(signal).toBe("SIGKILL");
}

/** The agent that resumes such a run, and completes it with the last reply. @param onResumed called in the effect that was interrupted */
export function createSurvivor(onResumed: () => void = () => {}): Agent<number, { replies: string[] }, string> {
  return defineAgent({
    name: NAME,
    initial: (_input: number) => ({ replies: [] as string[] }),
    async step(run) {
      run.state.replies.push(await run.llm(() => "never called"));
      await run.effect(DEADLY, onResumed);
      return run.complete(run.state.replies.at(-1) ?? "");
    },
  });
}
