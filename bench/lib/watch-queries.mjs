// Counts the statements and round trips on the connections of a `pg`, and measures how long at least one of them is in progress.
// A string that is sent counts as one statement, even if it contains several.

/** @typedef {{ statements: number; requests: number; waited: number }} Seen */

/** Watches every client of this `pg` until it is stopped. @param {any} pg */
export function watchQueries(pg) {
  const { prototype } = pg.Client;
  const { query } = prototype;
  let [statements, requests, waited, underWay, since] = [0, 0, 0, 0, 0];
  const begin = (count = 1) => {
    statements += count;
    requests++;
    if (underWay++ === 0) since = performance.now();
  };
  const end = () => {
    if (--underWay === 0) waited += performance.now() - since;
  };
  prototype.query = function watched(/** @type {any[]} */ ...args) {
    const [first] = args;
    // Savepoint sends the statements of its commits together, in a query object of its own.
    if (typeof first?.submit === "function" && typeof first.callback === "function") {
      begin(first.statements?.length);
      const { callback } = first;
      first.callback = (/** @type {any[]} */ ...answer) => {
        end();
        callback(...answer);
      };
      return query.apply(this, args);
    }
    begin();
    const last = args.at(-1);
    if (typeof last === "function") {
      args[args.length - 1] = (/** @type {any[]} */ ...answer) => {
        end();
        last(...answer);
      };
      return query.apply(this, args);
    }
    const result = query.apply(this, args);
    if (typeof result?.then === "function") result.then(end, end);
    else result?.once?.("end", end);
    return result;
  };
  return {
    /** What was seen since it was last asked. @returns {Seen} */
    take() {
      const now = performance.now();
      const seen = { statements, requests, waited: underWay > 0 ? waited + now - since : waited };
      [statements, requests, waited, since] = [0, 0, 0, now];
      return seen;
    },
    stop() {
      prototype.query = query;
    },
  };
}
