/** Readers that close the pipe early or read slowly. */
import { PassThrough, Writable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { linesOf, spawnProgram, spawnShell, startMain } from "./command.js";
import { useFilledPlace } from "./place.js";

/** The reading end of a pipe: accepts data one turn later, and closes after a number of lines. */
class Reader extends Writable {
  text = "";
  #lines = 0;
  /** The most bytes that were buffered at once. */
  mostWaiting = 0;
  /** How many bytes were written after it was closed. */
  refused = 0;

  constructor(readonly enough = Number.POSITIVE_INFINITY) {
    super({ decodeStrings: true, autoDestroy: false });
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error) => void): void {
    this.mostWaiting = Math.max(this.mostWaiting, this.writableLength);
    setImmediate(() => {
      if (this.#lines >= this.enough) {
        this.refused += 1;
        return done(Object.assign(new Error("write EPIPE"), { code: "EPIPE" }));
      }
      const text = chunk.toString("utf8");
      this.text += text;
      this.#lines += text.split("\n").length - 1;
      done();
    });
  }
}

describe.concurrent("a pipe", () => {
  const place = useFilledPlace(async (sp) => {
    const sessions = Array.from({ length: 50 }, (_, n) => sp.session(`s${n}`));
    for (let n = 0; n < 40; n++)
      await Promise.all(sessions.map((each) => each.save({ n }, { metadata: { x: "x".repeat(2000) } })));
    await sp.session("big").save({ text: "x".repeat(3_000_000) });
  });
  const onStore = (line: string): string[] => [...line.split(" "), "--store", place().url];

  async function readBy(reader: Reader, line: string): Promise<{ stderr: string; code: number }> {
    const [stdin, stderr] = [new PassThrough(), new Reader()];
    const code = await startMain(onStore(line), { stdin, stdout: reader, stderr }).ended;
    // A process does not end before its last output was accepted.
    for (const each of [reader, stderr]) while (each.writableLength > 0 && !each.errored) await nextTurn();
    return { stderr: stderr.text, code };
  }

  it.each([
    ["log", 2],
    ["log --jsonl", 1],
    ["log --json", 1],
    ["log --graph", 3],
    ["show big", 2],
    ["show big --json", 2],
    ["log", 0],
  ])("savepoint %s ends quietly and soon if the reader closes the pipe after %i lines", async (line, lines) => {
    const reader = new Reader(lines);
    expect(await readBy(reader, line)).toEqual({ stderr: "", code: 0 });
    expect(linesOf(reader.text).length).toBeGreaterThanOrEqual(lines);
    expect(reader.refused).toBeLessThanOrEqual(20);
  });

  it.each([
    ["log | head -2", 2],
    ["show big --json | head -2", 2],
    ["log | true", 0],
  ])("the process of savepoint %s ends quietly", async (line, lines) => {
    const env = { SAVEPOINT_URL: place().url };
    const { stdout, stderr, code } = await spawnShell(`savepoint ${line}`, { env }).ended;
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
    expect(linesOf(stdout)).toHaveLength(lines);
  });

  it("a pipe that is closed before help is printed ends the process quietly", async () => {
    const { child, ended } = spawnProgram(["--help"], { stdin: "" });
    child.stdout?.destroy();
    expect(await ended).toMatchObject({ stderr: "", code: 0 });
  });

  it("a closed pipe does not change the exit code of a failure", async () => {
    const { child, ended } = spawnProgram(onStore("show nope"), { stdin: "" });
    child.stdout?.destroy();
    child.stderr?.destroy();
    expect((await ended).code).toBe(4);
  });

  it("a slow reader loses nothing, and little output is buffered for it", async () => {
    const reader = new Reader();
    expect(await readBy(reader, "log --jsonl")).toEqual({ stderr: "", code: 0 });
    expect(linesOf(reader.text)).toHaveLength(2001);
    expect(reader.mostWaiting).toBeLessThan(reader.writableHighWaterMark + 10_000);
    for (const event of ["drain", "close"]) expect(reader.listenerCount(event)).toBe(0);
  });

  it("a slow reader of a process loses nothing and causes no warning", async () => {
    const { child, ended } = spawnProgram(onStore("log --jsonl"), { stdin: "" });
    const { stdout } = child;
    // Each chunk is accepted only after all other callbacks have run.
    stdout?.on("data", () => {
      stdout.pause();
      setImmediate(() => stdout.resume());
    });
    const { stdout: text, stderr, code } = await ended;
    expect({ lines: linesOf(text).length, stderr, code }).toEqual({ lines: 2001, stderr: "", code: 0 });
  });
});
