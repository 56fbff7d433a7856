/** The queue, the workers and the open questions of a store: read completely, shared by all clients. */
import { isSavepointError, type QueueState, type Savepoint } from "../../index.js";
import type { QuestionPage, QueueView, WorkerView } from "../api.js";
import { toWire } from "../http/responses.js";
import { Cached } from "./cached.js";
import type { SessionIndex } from "./session-index.js";
import { omitUndefined, toQueueView } from "./views.js";

const MAX_QUEUE = 100_000;
const MAX_RUNS = 1000;
/** The most sessions outside of the index whose waiting time is read. */
const MAX_LOADED = 500;
/** How long what was read is kept at least, in milliseconds. */
const MIN_AGE = 300;

export interface QueueOverview {
  readonly entries: readonly QueueView[];
  readonly states: Readonly<Partial<Record<QueueState, number>>>;
}

type AskingBranch = QuestionPage["entries"][number];

export class Work {
  readonly queue: Cached<QueueOverview>;
  readonly workers: Cached<readonly WorkerView[]>;
  readonly questions: Cached<readonly AskingBranch[]>;

  constructor(sp: Savepoint, index: SessionIndex) {
    this.queue = new Cached(MIN_AGE, () => readQueue(sp));
    this.workers = new Cached(MIN_AGE, () => readWorkers(sp));
    this.questions = new Cached(MIN_AGE, async () => readQuestions(sp, index, (await this.queue.get()).entries));
  }

  /** Forgets what was read, because it was changed here. */
  clear(): void {
    for (const each of [this.queue, this.workers, this.questions]) each.clear();
  }
}

async function readQueue(sp: Savepoint): Promise<QueueOverview> {
  const entries: QueueView[] = [];
  const states: Partial<Record<QueueState, number>> = {};
  for await (const run of sp.queue()) {
    states[run.state] = (states[run.state] ?? 0) + 1;
    if (entries.length < MAX_QUEUE) entries.push(toQueueView(run));
  }
  return { entries, states };
}

async function readWorkers(sp: Savepoint): Promise<WorkerView[]> {
  const workers: WorkerView[] = [];
  try {
    for await (const worker of sp.workers()) {
      workers.push(toWire({ ...worker, runs: worker.runs.slice(0, MAX_RUNS) }) as unknown as WorkerView);
    }
  } catch (error) {
    // A Savepoint for one agent does not see the processes of others.
    if (!isSavepointError(error, "OUT_OF_SCOPE")) throw error;
  }
  return workers;
}

async function readQuestions(
  sp: Savepoint,
  index: SessionIndex,
  queue: readonly QueueView[],
): Promise<readonly AskingBranch[]> {
  const asking: AskingBranch[] = [];
  let loaded = 0;
  for (const { sessionId: session, branch, agent, questions } of queue) {
    if (questions.length === 0) continue;
    const row = branch === "main" ? index.get(session) : undefined;
    const isKnown = row !== undefined && row.questions > 0;
    const info = isKnown || loaded++ >= MAX_LOADED ? undefined : await sp.sessions.load(session, { branch });
    const since = isKnown ? row.updatedAt : (info?.head?.createdAt ?? row?.updatedAt ?? Date.now());
    asking.push(omitUndefined({ session, branch, agent, since, questions }));
  }
  return asking.sort((a, b) => a.since - b.since);
}
