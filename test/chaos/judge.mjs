/**
 * Says what must hold, whatever happens to the workers and to the database.
 *
 * - Epochs, heads and steps of a session never go back, in no commit, and its journal has the epoch of its branch.
 * - A step is saved once: if two processes get an acknowledgement for it, one has overwritten the other.
 * - Everything that was acknowledged to a process, or that a process has read, exists and stays unchanged.
 * - Checkpoints of a session are one line, without a gap.
 * - What was recorded is not done again: see `judgeDeeds`.
 */
import pg from "pg";
import { setTimeout as sleep } from "node:timers/promises";
import { STEPS } from "./agent.mjs";

/** @import { Savepoint } from "savepoint" */
/** @import { Crew } from "./crew.mjs" */
/** @import { State } from "./agent.mjs" */
/** @import { Ack, Deed, Done, World } from "./world.mjs" */

/** What is known of a session. */
class Known {
  epoch = 0;
  seq = -1;
  /** Steps whose save was acknowledged, or that were read. */
  step = 0;
  ended = false;
  /** Which process got the acknowledgement of a step or a checkpoint. @type {Map<string, string>} */
  savedBy = new Map();
  /** What steps have recorded. @type {Map<number, { drawn?: string, written?: string }>} */
  recorded = new Map();
  queued = 0;
  /** @type {string | undefined} */
  startedBy;
}

export class Judge {
  /**
   * @param {string} url of the database, without the schema
   * @param {Savepoint} sp
   * @param {World} world
   * @param {Crew} crew
   * @param {readonly string[]} sessions
   * @param {(violation: string) => void} violated
   */
  constructor(url, sp, world, crew, sessions, violated) {
    this.url = url;
    this.sp = sp;
    this.world = world;
    this.crew = crew;
    this.violated = violated;
    this.sessions = new Map(sessions.map((session) => [session, new Known()]));
    this.steps = 0;
    this.takeovers = 0;
    /** Who was taken over from last. @type {string | undefined} */
    this.lastLoser = undefined;
    this.refused = 0;
    this.excused = 0;
    this.unlucky = 0;
    this.repeated = 0;
    this.acknowledged = 0;
  }

  get completed() {
    return [...this.sessions.values()].filter(({ ended }) => ended).length;
  }

  /** Looks at all sessions at one moment, and at some of them closely. @param {readonly string[]} closely */
  async look(closely) {
    // What was acknowledged before a read must be found by it.
    this.#takeAcks();
    await this.#lookAtRecords();
    for (const session of closely) await this.lookAt(session, false);
  }

  /** @param {Ack} ack */
  #take({ by, session, what, step = 0, seq, status, done }) {
    const known = /** @type {Known} */ (this.sessions.get(session));
    this.acknowledged++;
    if (what === "queued" && ++known.queued > 1) this.violated(`${session} was left twice`);
    if (what === "started") {
      if (known.startedBy !== undefined && known.startedBy !== by) {
        this.takeovers++;
        this.lastLoser = known.startedBy;
      }
      known.startedBy = by;
    }
    // Who wakes it takes nothing over.
    if (what === "status") known.startedBy = undefined;
    if (what === "leaseLost") this.refused++;
    if (what === "quarantined") this.violated(`${session} was put aside`);
    if (what === "step") {
      this.#saved(known, `step ${step}`, session, by);
      this.steps++;
      known.step = Math.max(known.step, step);
    }
    if (what === "checkpoint") this.#saved(known, `checkpoint #${seq}`, session, by);
    if (what === "seen" && done) {
      known.step = Math.max(known.step, step);
      this.#record(session, done.step, done);
    }
    if (what === "status" && status !== "waiting" && status !== "completed") {
      this.violated(`${session} ended as ${status}`);
    }
  }

  /** @param {Known} known @param {string} what @param {string} session @param {string} by */
  #saved(known, what, session, by) {
    const before = known.savedBy.get(what);
    if (before !== undefined) this.violated(`${what} of ${session} was saved twice, by ${before} and by ${by}`);
    known.savedBy.set(what, by);
  }

  /** What was recorded once stays. @param {string} session @param {number} step @param {{ drawn?: string, written?: string }} found */
  #record(session, step, found) {
    const { recorded } = /** @type {Known} */ (this.sessions.get(session));
    const known = recorded.get(step) ?? {};
    for (const name of /** @type {const} */ (["drawn", "written"])) {
      const [before, now] = [known[name], found[name]];
      if (before !== undefined && now !== undefined && before !== now) {
        this.violated(`step ${step} of ${session} had ${name} ${before}, and has ${now} now`);
      }
    }
    recorded.set(step, { ...found, ...known });
  }

  /** Has another worker begun with a session of this one's? @param {string} name */
  isTakenOver(name) {
    const { takeovers } = this;
    this.#takeAcks();
    return takeovers !== this.takeovers && this.lastLoser === name;
  }

  #takeAcks() {
    for (const ack of this.world.newAcks()) this.#take(ack);
  }

  async #lookAtRecords() {
    // More may be acknowledged while the database answers.
    const steps = new Map(
      [...this.sessions].map(([session, { step, savedBy }]) => [session, { step, saved: savedBy.size }]),
    );
    const rows = await this.#query(
      `SELECT key, value FROM savepoint.savepoint_record
       WHERE key LIKE E's\\tsession-%\\tmain' OR key LIKE E'r\\tsession-%\\tmain\\tj'`,
    );
    for (const { what } of await this.#query("SELECT what FROM chaos_violation")) this.violated(what);
    const values = new Map(rows.map(({ key, value }) => [key, value]));
    for (const [session, known] of this.sessions) {
      const before = /** @type {{ step: number, saved: number }} */ (steps.get(session));
      const branch = readBranch(values.get(`s\t${session}\tmain`));
      const journal = values.get(`r\t${session}\tmain\tj`);
      if (!branch) {
        if (known.seq >= 0 || before.saved > 0) this.violated(`${session} is not there any more`);
        continue;
      }
      const epoch = journal === undefined ? undefined : /** @type {number[]} */ (JSON.parse(journal))[1];
      if (epoch !== branch.epoch) this.violated(`${session} has epoch ${branch.epoch}, and its journal ${epoch}`);
      if (branch.epoch < known.epoch) this.violated(`${session} went from epoch ${known.epoch} to ${branch.epoch}`);
      if (branch.seq < known.seq) this.violated(`${session} went from checkpoint #${known.seq} to #${branch.seq}`);
      if (branch.step < before.step) {
        this.violated(`${session}: step ${before.step} was saved, and ${branch.step} is left`);
      }
      known.epoch = branch.epoch;
      known.seq = branch.seq;
      known.ended = branch.completed;
    }
  }

  /** Looks at the state of a session and at the line of its checkpoints. @param {string} session @param {boolean} over */
  async lookAt(session, over) {
    const known = /** @type {Known} */ (this.sessions.get(session));
    // What was acknowledged before a read must be found by it.
    const stepBefore = known.step;
    const handle = this.sp.session(session);
    const latest = await handle.latest();
    const { done } = /** @type {State} */ (latest?.state ?? { done: [] });
    for (const [index, each] of done.entries()) {
      if (each.step !== index + 1) this.violated(`${session} has step ${each.step} in the place of ${index + 1}`);
      this.#record(session, each.step, each);
    }
    if (done.length < stepBefore) this.violated(`${session} has ${done.length} steps, and ${stepBefore} were saved`);
    const line = await handle.history({ order: "oldest", allBranches: true }).all();
    let [step, id] = [0, /** @type {string | undefined} */ (undefined)];
    for (const checkpoint of line) {
      if (checkpoint.parentId !== id) {
        this.violated(`${session}#${checkpoint.seq} does not follow ${id ?? "nothing"}, but ${checkpoint.parentId}`);
      }
      // Those in the middle of a step have its number.
      if (checkpoint.step !== step && checkpoint.step !== step + 1) {
        this.violated(`${session}#${checkpoint.seq} is of step ${checkpoint.step}, after step ${step}`);
      }
      [step, id] = [checkpoint.step, checkpoint.id];
    }
    if (!over) return;
    const { status } = (await this.sp.sessions.load(session)) ?? {};
    if (status !== "completed") this.violated(`${session} is ${status}, with ${done.length} steps`);
    else if (done.length !== STEPS) this.violated(`${session} is completed with ${done.length} steps`);
    this.#judgeDeeds(session, done);
  }

  /**
   * Before a tool is called, everything before it is recorded. So once a later deed exists, an earlier one must not
   * follow; every later one was given the same; and a tool that can be asked whether it ran is run once. A process that
   * was frozen in the middle of a deed does it when it is woken, and nothing can prevent that. It may also begin one, if it
   * was frozen at the moment at which it had checked that it may; but that is rare, see `judgeAll`.
   *
   * @param {string} session @param {readonly Done[]} state
   */
  #judgeDeeds(session, state) {
    /** @type {Map<string, Deed>} */
    const firsts = new Map();
    let latest = 0;
    for (const deed of this.world.done(session)) {
      const { by, begun, at, step, what, key, token, drawn } = deed;
      const place = step * 2 + (what === "draw" ? 0 : 1);
      const before = firsts.get(key);
      const late = place < latest ? "after what comes after it" : before && what === "verify" ? "twice" : undefined;
      if (late !== undefined) {
        const { token: first } = before ?? deed;
        // Of two who did it, the one that was frozen in it may also have been the first.
        const other = before && this.crew.frozenIn(before.by, before.begun, before.at);
        const frozen = this.crew.frozenIn(by, begun, at) ?? (late === "twice" ? other : undefined);
        if (frozen === "in it") this.excused++;
        else if (frozen === "before it") this.unlucky++;
        else this.violated(`${what} of step ${step} of ${session} was done ${late} by ${by}: ${first}, ${token}`);
        continue;
      }
      if (before) this.repeated++;
      latest = Math.max(latest, place);
      firsts.set(key, before ?? deed);
      if (drawn !== undefined) this.#record(session, step, { drawn });
    }
    const tokens = new Set(this.world.done(session).map(({ token }) => token));
    for (const { step, drawn, written } of state) {
      for (const token of [drawn, written]) {
        if (!tokens.has(token)) this.violated(`step ${step} of ${session} has ${token}, which nobody has done`);
      }
    }
  }

  /** When all is over. */
  async judgeAll() {
    await this.look([]);
    for (const session of this.sessions.keys()) await this.lookAt(session, true);
    const { freezes } = this.crew;
    // Those that do not make sure at all are one in three of what a frozen process was at.
    if (this.unlucky > freezes) {
      this.violated(`${this.unlucky} effects began in processes that were woken and had lost their leases`);
    }
  }

  /** @param {string} sql @returns {Promise<{ key: string, value: string, what: string }[]>} */
  async #query(sql) {
    for (let tries = 1; ; tries++) {
      const client = new pg.Client({ connectionString: this.url });
      client.on("error", () => {});
      try {
        await client.connect();
        return (await client.query(sql)).rows;
      } catch (error) {
        if (tries === 100) throw error;
        await sleep(200);
      } finally {
        await client.end().catch(() => {});
      }
    }
  }
}

/** @param {string | undefined} value */
function readBranch(value) {
  if (value === undefined) return undefined;
  const [fields = "", row = "{}"] = value.split("\n");
  const { e: epoch, h = [-1] } = /** @type {{ e: number, h?: [number] }} */ (JSON.parse(fields));
  const {
    s: step = 0,
    c: status,
    j,
  } = /** @type {{ s?: number, c?: string, j?: [number, number, number] }} */ (JSON.parse(row));
  // A checkpoint in the middle of a step has its number, and is not its end.
  return { epoch, seq: h[0], step: j?.[2] === 1 ? step - 1 : step, completed: status === "completed" };
}
