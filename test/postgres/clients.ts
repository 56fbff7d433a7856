/** Delays and loses answers of the server to what the clients of a pool send. */
import type pg from "pg";

/** A query as a client of `pg` gets it: a statement, or an object that sends several and calls back. */
interface Query {
  readonly text?: string;
  callback?: (error: unknown) => void;
}

type Send = (query: Query | string, ...rest: unknown[]) => unknown;

/** Whether a statement is one of a commit. */
export const isCommit = (text: string): boolean => /^(WITH (p0|done)|INSERT|DELETE)/.test(text);

/**
 * Calls a function for each answer to statements that write, before the store gets it.
 *
 * @param onAnswer gets the first statement and the error of the server. @returns the error that the store gets
 */
export function interceptAnswers(pool: pg.Pool, onAnswer: (text: string, error: unknown) => unknown): void {
  const seen = new WeakSet<pg.PoolClient>();
  pool.on("acquire", (client) => {
    if (seen.has(client)) return;
    seen.add(client);
    const send = client.query.bind(client) as Send;
    const watched: Send = (query, ...rest) => {
      if (typeof query === "string" || !query.callback) return send(query, ...rest);
      const { callback, text = "" } = query;
      query.callback = (error) => void Promise.resolve(onAnswer(text, error)).then(callback);
      return send(query, ...rest);
    };
    client.query = watched as typeof client.query;
  });
}

/**
 * Makes the store believe that a connection was cut after the server has executed what was sent over it: the worst moment.
 *
 * @param isLost called with the first statement of each query that was executed; may wait for something else to happen
 */
export function loseAnswers(pool: pg.Pool, isLost: (text: string) => boolean | Promise<boolean>): { lost: number } {
  const answers = { lost: 0 };
  interceptAnswers(pool, async (text, error) => {
    if (error !== null || !(await isLost(text))) return error;
    answers.lost++;
    return new Error("Connection terminated unexpectedly");
  });
  return answers;
}
