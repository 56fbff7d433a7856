/** Whoever reads may stop reading, or read slowly. */
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { environment, linesOf, PROGRAM, shell, usePlace } from "./cli.js";

describe.concurrent("a pipe", () => {
  const place = usePlace(async (sp) => {
    const sessions = Array.from({ length: 50 }, (_, n) => sp.session(`s${n}`));
    for (let n = 0; n < 40; n++)
      await Promise.all(sessions.map((each) => each.save({ n }, { metadata: { x: "x".repeat(2000) } })));
    await sp.session("big").save({ text: "x".repeat(3_000_000) });
  });
  const through = (line: string) => shell(line, { env: { SAVEPOINT_URL: place().url } });

  it.each([
    ["log | head -2", 2],
    ["log --jsonl | head -1", 1],
    ["log --json | head -1", 1],
    ["log --graph | head -3", 3],
    ["show big | head -2", 2],
    ["show big --json | head -2", 2],
  ])("savepoint %s ends quietly", async (line, lines) => {
    const { stdout, stderr, code } = await through(`savepoint ${line}`);
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
    expect(linesOf(stdout)).toHaveLength(lines);
  });

  it("that nobody reads ends quietly", async () => {
    const { stderr, code } = await through("savepoint log | true");
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
  });

  it("that nobody reads ends quietly when help is printed to it", async () => {
    const { stderr, code } = await through("savepoint --help | (exec 0<&-; sleep 1)");
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
  });

  it("keeps the exit code of what went wrong, also where nobody reads that", async () => {
    const { code } = await through("savepoint show nope 2>&1 | cat >/dev/null");
    expect(code).toBe(4);
  });

  it("keeps the exit code where stderr is closed", async () => {
    expect((await through("savepoint show nope 2>&1 | (exec 0<&-; sleep 1)")).code).toBe(4);
  });

  it("has all of it for somebody who reads on", async () => {
    const { stdout, code } = await through("savepoint log --jsonl | wc -l");
    expect({ stdout: stdout.trim(), code }).toEqual({ stdout: "2001", code: 0 });
  });

  it("can be read slowly, and nothing is lost", async () => {
    const { lines, code } = await readSlowly(["log", "--jsonl"], place().url);
    expect({ lines, code }).toEqual({ lines: 2001, code: 0 });
  });

  it("can be read slowly without a warning", async () => {
    expect((await readSlowly(["log", "--jsonl"], place().url)).stderr).toBe("");
  });
});

async function readSlowly(
  args: string[],
  url: string,
): Promise<{ lines: number; stderr: string; code: number | null }> {
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    env: environment({ SAVEPOINT_URL: url }),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const closed = new Promise<number | null>((resolve) => child.on("close", resolve));
  let text = "";
  for await (const chunk of child.stdout.setEncoding("utf8")) {
    text += String(chunk);
    await sleep(30);
  }
  return { lines: linesOf(text).length, stderr, code: await closed };
}
