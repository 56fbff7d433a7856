/** Handles of runs that were started in this process. */
import type { RunEvent, RunEventOf, RunEventType } from "../../events/index.js";
import type { RunResult } from "../status/index.js";

/** A run of this process, returned by `sp.start()` and `sp.recover()`. */
export interface RunHandle<State = unknown, Output = unknown> {
  readonly session: string;
  readonly branch: string;
  /** Resolves when the run has ended or waits. Rejects with errors of Savepoint, such as `LEASE_LOST`. */
  result(): Promise<RunResult<State, Output>>;
  /** Cancels the run: it is halted with this reason. Resolves when it is. */
  cancel(reason?: string): Promise<void>;
  /** Adds a listener for events of the run. Returns the function that removes it. */
  on<Type extends RunEventType>(type: Type, listener: (event: RunEventOf<Type>) => void): () => void;
}

interface HandleHost {
  cancel(reason: string | undefined): Promise<unknown>;
  listen(listener: (event: RunEvent) => void): () => void;
}

export function createHandle(
  session: string,
  branch: string,
  finished: Promise<RunResult>,
  host: HandleHost,
): RunHandle {
  // A caller that does not request the result must not get an unhandled rejection.
  finished.catch(() => {});
  return {
    session,
    branch,
    result: () => finished,
    cancel: async (reason) => {
      await host.cancel(reason);
      await finished.catch(() => {});
    },
    on: (type, listener) =>
      host.listen((event) => {
        const isOfRun = event.sessionId === session && event.branch === branch && event.type === type;
        if (isOfRun) listener(event as Parameters<typeof listener>[0]);
      }),
  };
}
