/** Many checkpoints: the first ones are printed before the rest is read, and memory stays small. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { describe, expect, it } from "vitest";
import { type Ended, environment, linesOf, PROGRAM, spawnProgram } from "./command.js";
import { type Place, useFilledPlace } from "./place.js";

/** One long session and many short ones. */
const LONG = 20_000;
const SHORT = 100;
const SESSIONS = 300;
const ALL = LONG + SHORT * SESSIONS;
describe("a store with 50,000 checkpoints", () => {
  const place = useFilledPlace(async (sp) => {
    const long = sp.session("long");
    const saves = (async () => {
      for (let n = 0; n < LONG; n++) await long.save({ n });
    })();
    const short = Array.from({ length: SESSIONS }, (_, n) => sp.session(`short-${n}`));
    for (let n = 0; n < SHORT; n++) await Promise.all(short.map((session) => session.save({ n })));
    await saves;
  });

  /** A process with a JavaScript heap of 64 megabytes. */
  const inLittleMemory = (args: readonly string[]): Promise<Ended> =>
    spawnProgram([...args, "--store", place().url], { stdin: "", nodeArgs: ["--max-old-space-size=64"] }).ended;

  it.each([
    ["log long", LONG + 1],
    ["log long --graph", LONG + 1],
    ["log long --jsonl", LONG],
    ["log long --oldest --jsonl", LONG],
    ["log --jsonl", ALL],
  ])("%s prints all of them in little memory", async (line, lines) => {
    const { stdout, code } = await inLittleMemory(line.split(" "));
    expect(code).toBe(0);
    expect(linesOf(stdout)).toHaveLength(lines);
  });

  it("log --json prints one valid JSON document", async () => {
    const { stdout, code } = await inLittleMemory(["log", "--json"]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toHaveLength(ALL);
  });

  it.each(["log", "log long --graph", "log --json"])(
    "%s prints its first lines and waits while the reader does not read on",
    async (line) => {
      expect(await firstLines(place(), line.split(" "), 3)).toHaveLength(3);
    },
  );

  it("--limit reads only as many checkpoints as it prints", async () => {
    const { stdout } = await inLittleMemory(["log", "-n", "5", "--jsonl"]);
    expect(linesOf(stdout)).toHaveLength(5);
  });

  it("a checkpoint is found by its number, its id and the end of its id", async () => {
    const shown = await place().json(["show", "long#77"]);
    expect(shown.state).toEqual({ n: 77 });
    expect(await place().json(["show", `${shown.id}:/n`])).toBe(77);
    const { stdout, code } = await inLittleMemory(["show", `${shown.id.slice(-8)}:/n`]);
    expect({ stdout, code }).toEqual({ stdout: "77\n", code: 0 });
  });

  it("sessions and stats need little memory", async () => {
    const sessions = await inLittleMemory(["sessions"]);
    expect(linesOf(sessions.stdout)).toHaveLength(SESSIONS + 2);
    const stats = await inLittleMemory(["stats", "--json"]);
    expect(JSON.parse(stats.stdout)).toMatchObject({ sessions: SESSIONS + 1, checkpoints: ALL });
  });
});

/** Reads some lines, checks whether there are more, and ends the program. */
async function firstLines(place: Place, args: readonly string[], count: number): Promise<string[]> {
  const child = spawn(process.execPath, [PROGRAM, ...args, "--store", place.url], {
    env: environment(),
    stdio: ["ignore", "pipe", "ignore"],
  });
  const closed = new Promise((resolve) => child.on("close", resolve));
  const lines: string[] = [];
  for await (const line of createInterface(child.stdout)) {
    if (lines.push(line) === count) break;
  }
  // The program has not ended: unread output fills the pipe.
  const running = child.exitCode === null;
  child.kill("SIGKILL");
  await closed;
  return running ? lines : [];
}
