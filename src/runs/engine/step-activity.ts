/**
 * The activity of a step: the operations in flight, and the sleeps and questions that it waits for. When only the latter are
 * left, no process is needed, and the step can suspend.
 */
import { MAX_TIMER } from "../../util/index.js";
import type { Question } from "../../records/index.js";

interface Suspension {
  readonly question: Question | undefined;
  readonly wakeAt: number | undefined;
  readonly timer: NodeJS.Timeout | undefined;
}

export class StepActivity {
  #inFlight = 0;
  readonly #settlers: (() => void)[] = [];
  readonly #suspensions = new Map<number, Suspension>();

  /** The number of operations in flight. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Whether the step waits for a time or an answer, and for nothing else. */
  get isSuspended(): boolean {
    return this.#inFlight === 0 && this.#suspensions.size > 0;
  }

  /** The open questions. */
  get questions(): Question[] {
    return [...this.#suspensions.values()].flatMap(({ question }) => (question ? [question] : []));
  }

  /** The earliest time that the step waits for. */
  get wakeAt(): number | undefined {
    const times = [...this.#suspensions.values()].flatMap(({ wakeAt }) => (wakeAt === undefined ? [] : [wakeAt]));
    return times.length > 0 ? Math.min(...times) : undefined;
  }

  /** Counts an operation that starts. */
  enter(): void {
    this.#inFlight++;
  }

  /** Counts an operation that has ended. */
  leave(): void {
    this.#inFlight--;
    for (const settle of this.#settlers.splice(0)) settle();
  }

  /** Resolves when no operation is in flight. */
  async settled(): Promise<void> {
    while (this.#inFlight > 0) await new Promise<void>((resolve) => this.#settlers.push(resolve));
  }

  /** Waits for the answer to a question. It arrives in a later attempt. */
  ask(index: number, question: Question): void {
    this.#suspensions.set(index, { question, wakeAt: undefined, timer: undefined });
  }

  /**
   * Waits for a time.
   *
   * @param delay the time until then, in milliseconds
   * @param wake called at that time, if the step has not suspended by then
   */
  sleep(index: number, wakeAt: number, delay: number, wake: () => void): void {
    const timer = delay > MAX_TIMER ? undefined : setTimeout(() => this.#suspensions.delete(index) && wake(), delay);
    this.#suspensions.set(index, { question: undefined, wakeAt, timer });
  }

  /** Stops all timers. */
  close(): void {
    for (const { timer } of this.#suspensions.values()) clearTimeout(timer);
  }
}
