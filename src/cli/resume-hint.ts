/** What the user can run to resume sessions. */
import { existsSync } from "node:fs";
import type { QueuedRun, Savepoint, SessionInfo } from "../index.js";
import type { Cli } from "./cli.js";

/** The usual names of a module that exports agents. A hint names one only if it exists. */
const MODULES = ["agents.mjs", "agents.js", "agents.ts", "agents.mts"];
const PROGRAM = "run your program again";

/** The end of a sentence such as "To resume, …": running the program again always works, `recover` needs a module. */
export function suggestResume(cli: Cli): string {
  const command = suggestWithModule(cli, "recover");
  return command === undefined ? PROGRAM : `${PROGRAM}, or: ${command}`;
}

/** The same for one session. `recover` does not resume a loop of another SDK, nor a branch that was moved or has ended. */
export async function suggestResumeOf(cli: Cli, sp: Savepoint, id: string): Promise<string> {
  const info = await sp.sessions.load(id);
  if (info?.status === "failed" || info?.status === "halted") return suggestRestart(info);
  return (await findQueued(sp, id))?.external ? PROGRAM : suggestResume(cli);
}

/** How a session that has failed or was halted is resumed. */
export function suggestRestart(info: SessionInfo): string {
  const { status, head, error } = info;
  if (isThread(info)) return "invoke the graph again: graph.invoke(null, config)";
  const isRestored = head?.kind === "recovery";
  // The code of the agent has failed, and may have been fixed since. A restored checkpoint has the end of its run, without the error.
  const isFailedCode = status === "failed" && error !== undefined && !isRestored;
  // A rewind and a restore leave a halted session. It has not ended, unless a run had ended at the checkpoint.
  const isMoved = status === "halted" && isRestored && head.status !== "halted";
  return isFailedCode || isMoved ? PROGRAM : `${PROGRAM} with { resume: true } in the options of sp.run()`;
}

/** How the interrupt of a LangGraph thread is answered. */
export const ANSWER_THREAD = "graph.invoke(new Command({ resume: answer }), config)";

/** Returns whether a session is a LangGraph thread, which only its graph can answer and resume. */
export function isThread({ head }: SessionInfo): boolean {
  return typeof head?.metadata["savepoint:ns"] === "string";
}

/** How a queued session that has never run is started. */
export function suggestWorker(cli: Cli, agent: string): string {
  const command = suggestWithModule(cli, "worker");
  return `start a worker for agent ${agent}${command === undefined ? "" : `: ${command}`}`;
}

/** The entry of a session in the queue. */
export async function findQueued(sp: Savepoint, id: string): Promise<QueuedRun | undefined> {
  for await (const queued of sp.queue({ session: id })) return queued;
  return undefined;
}

function suggestWithModule(cli: Cli, verb: string): string | undefined {
  const module = MODULES.find((name) => existsSync(cli.resolvePath(name)));
  return module === undefined ? undefined : cli.suggest(verb, [], "--agents", `./${module}`);
}
