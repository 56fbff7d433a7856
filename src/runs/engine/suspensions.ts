/** What a step waits for that no process needs to wait for: a time, or an answer. */
import { MAX_TIMER } from "../../util/index.js";
import type { Question } from "../../records/index.js";

interface Suspension {
  readonly question: Question | undefined;
  readonly wakeAt: number | undefined;
  readonly timer: NodeJS.Timeout | undefined;
}

export class Suspensions {
  readonly #waiting = new Map<number, Suspension>();

  get size(): number {
    return this.#waiting.size;
  }

  /** What is asked. */
  get questions(): Question[] {
    return [...this.#waiting.values()].flatMap(({ question }) => (question ? [question] : []));
  }

  /** The first time that is waited for. */
  get wakeAt(): number | undefined {
    const times = [...this.#waiting.values()].flatMap(({ wakeAt }) => (wakeAt === undefined ? [] : [wakeAt]));
    return times.length > 0 ? Math.min(...times) : undefined;
  }

  ask(index: number, question: Question): void {
    this.#waiting.set(index, { question, wakeAt: undefined, timer: undefined });
  }

  /** @param left until then, in milliseconds; `wake` is called if the process is still there */
  sleep(index: number, wakeAt: number, left: number, wake: () => void): void {
    const timer = left > MAX_TIMER ? undefined : setTimeout(() => this.#waiting.delete(index) && wake(), left);
    this.#waiting.set(index, { question: undefined, wakeAt, timer });
  }

  close(): void {
    for (const { timer } of this.#waiting.values()) clearTimeout(timer);
  }
}
