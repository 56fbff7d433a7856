/** A sleep that can be ended early. A call to `wake` before `sleep` makes the next sleep return immediately. */
export class Alarm {
  #isAwake = false;
  #end: (() => void) | undefined;

  wake(): void {
    this.#isAwake = true;
    this.#end?.();
  }

  /** Sleeps for a time in milliseconds, or until {@link wake} is called. Keeps the process alive. */
  async sleep(time: number): Promise<void> {
    if (!this.#isAwake && time > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, time);
        this.#end = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#end = undefined;
    this.#isAwake = false;
  }
}
