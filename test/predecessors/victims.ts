/** Child processes that open a store and are killed, or close it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

const program = fileURLToPath(new URL("./victim.mjs", import.meta.url));

export interface Victim {
  readonly pid: number;
  /** The checkpoints that it has saved, oldest first. */
  readonly ids: readonly string[];
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
}

/** Starts one; resolves when it has done its work. One that waits to be killed is killed when the test has finished. */
export async function startVictim(work: "hold" | "close" | "runs", url: string, session = "s"): Promise<Victim> {
  const child = spawn(process.execPath, [program, work, url, session], { stdio: ["ignore", "pipe", "pipe"] });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const ended = once(child, "close").then(([code, signal]) => ({ code, signal }) as Awaited<Victim["ended"]>);
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const said = once(createInterface(child.stdout), "line").then(
    ([line]) => JSON.parse(String(line)) as Pick<Victim, "ids">,
  );
  const first = await Promise.race([said, ended]);
  if (!("ids" in first)) throw new Error(`It ended before it had said anything: ${stderr}`);
  return { pid: child.pid as number, ended, ids: first.ids };
}

/** kill -9. Resolves when it is dead. */
export async function kill({ pid, ended }: Victim): Promise<void> {
  process.kill(pid, "SIGKILL");
  await ended;
}
