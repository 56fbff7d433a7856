/** A child process that gets commands, and whose output is read line by line while it runs. */
import { onTestFinished } from "vitest";
import { type Ended, type Started, startProgram } from "../crash/children.js";
import { until } from "../support/until.mjs";

export type Line = Readonly<Record<string, unknown>>;

export class LiveChild {
  readonly #started: Started;
  readonly #lines: Line[] = [];
  #rest = "";

  constructor(program: string, job: string, ...args: unknown[]) {
    this.#started = startProgram(program, job, ...args);
    onTestFinished(() => void this.kill());
    this.#started.child.stdout?.on("data", (text: string) => {
      const lines = (this.#rest + text).split("\n");
      this.#rest = lines.pop() ?? "";
      this.#lines.push(...lines.map((line) => JSON.parse(line) as Line));
    });
  }

  /** Resolves when the child has ended. */
  get ended(): Promise<Ended> {
    return this.#started.ended;
  }

  get lineCount(): number {
    return this.#lines.length;
  }

  send(command: Line): void {
    this.#started.child.stdin?.write(`${JSON.stringify(command)}\n`);
  }

  /** Waits for a line. @param after the index of the first line that counts */
  async waitFor(matches: (line: Line) => boolean, what: string, after = 0): Promise<Line> {
    let exit: Ended | undefined;
    void this.ended.then((ended) => (exit = ended));
    return until(() => {
      const found = this.#lines.slice(after).find(matches);
      if (!found && exit) throw new Error(`The child ended before ${what}: ${exit.stderr}`);
      return found;
    }, what);
  }

  async kill(): Promise<Ended> {
    this.#started.child.kill("SIGKILL");
    return this.ended;
  }
}
