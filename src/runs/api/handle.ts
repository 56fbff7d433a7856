/** A run of this process, for whoever started it. */
import type { RunEvent, RunEventOf, RunEventType } from "../../events/index.js";
import type { RunResult } from "../status/index.js";

export interface RunHandle<State = unknown, Output = unknown> {
  readonly session: string;
  readonly branch: string;
  /** Resolves when it is over, or waits. Rejects for errors of Savepoint's own. */
  result(): Promise<RunResult<State, Output>>;
  /** Stops it: it is halted with this reason. Resolves when that is done. */
  cancel(reason?: string): Promise<void>;
  /** Listens to what happens in it. Returns the function that takes the listener off again. */
  on<Type extends RunEventType>(type: Type, listener: (event: RunEventOf<Type>) => void): () => void;
}

export interface HandleHost {
  cancel(reason: string | undefined): Promise<unknown>;
  listen(listener: (event: RunEvent) => void): () => void;
}

export function createHandle(
  session: string,
  branch: string,
  finished: Promise<RunResult>,
  host: HandleHost,
): RunHandle {
  // Whoever does not ask for the result is told by the events; it must not end the process.
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
        const here = event.sessionId === session && event.branch === branch && event.type === type;
        if (here) listener(event as Parameters<typeof listener>[0]);
      }),
  };
}
