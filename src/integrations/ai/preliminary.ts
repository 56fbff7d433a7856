/** What a tool tells while it runs, and its result at last, for the SDK to iterate over. */
export class Preliminary implements AsyncIterable<unknown> {
  readonly #run: (tell: (part: unknown) => void) => Promise<unknown>;

  /** @param run runs the tool, or gives what was recorded: then it tells nothing but the result */
  constructor(run: (tell: (part: unknown) => void) => Promise<unknown>) {
    this.#run = run;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<unknown> {
    const told: unknown[] = [];
    let wake: () => void = () => {};
    let count = 0;
    const result = this.#run((part) => {
      told.push(part);
      count++;
      wake();
    });
    let over = false;
    const end = (): void => {
      over = true;
      wake();
    };
    result.then(end, end);
    for (;;) {
      while (told.length > 0) yield told.shift();
      if (over) break;
      await new Promise<void>((resolve) => (wake = resolve));
    }
    const last = await result;
    if (count === 0) yield last;
  }
}
