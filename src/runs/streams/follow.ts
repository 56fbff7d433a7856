/** Follows the recorded deltas of a turn, from any process: returns what is recorded, then what is added, until the turn ends. */
import type { SessionReader } from "../../sessions/index.js";
import {
  decodeJournal,
  journalKey,
  type JournalRecord,
  runKey,
  type RunRecord,
  type Status,
} from "../../records/index.js";
import { type Duration, toMilliseconds } from "../../util/index.js";
import { type BranchStatus, decodeRunOfSession, readBranchStatuses } from "../status/index.js";
import { StreamCursor, type StreamEvent, streamLost } from "./cursor.js";
import { streamKey, StreamHub } from "./hub.js";

/** How a stream has ended. */
export interface StreamEnd {
  /** The status of the session; `running` if the iteration was aborted. */
  readonly status: Status;
  readonly reason: string | undefined;
}

/** Options of `sp.stream()`. */
export interface StreamOptions {
  /** @default "main" */
  readonly branch?: string;
  /** The id of the last event that was received, such as the header `Last-Event-ID`. @default from the beginning */
  readonly after?: string | undefined;
  /** Follow only the turn with this number. @default the current turn */
  readonly turn?: number;
  /**
   * How long to wait for a process that resumes an interrupted run. After that, the iteration ends with the status `interrupted`.
   * @default no limit
   */
  readonly patience?: Duration;
  /** Ends the iteration when it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

/** The times between two reads, in milliseconds: while deltas arrive, while none do, and if this process writes them. */
const FAST = 40;
const SLOW = 250;
const NOTIFIED = 1000;
/** The number of fast reads without a change before reads become slow. */
const FAST_READS = 25;
/** How often the lease of the run is checked while no deltas arrive, in milliseconds. */
const CHECK_INTERVAL = 500;

const ABORTED: StreamEnd = { status: "running", reason: undefined };

/**
 * Yields the deltas of a turn. Returns the status of the session when the turn has ended or waits for a person, the patience has
 * run out, or the signal is aborted. Throws `STREAM_LOST` if deltas that follow are no longer stored.
 */
export async function* followStream(
  reader: SessionReader,
  options: StreamOptions,
  checkOpen: () => void,
): AsyncGenerator<StreamEvent, StreamEnd> {
  const { branch = "main", signal } = options;
  const key = streamKey(reader.sessionId, branch);
  const hub = StreamHub.of(reader.context);
  const patience = toPatience(options.patience);
  const cursor = new StreamCursor(reader, branch, options.after);
  const leave = hub.addReader(key);
  let { turn } = options;
  let state: BranchState | undefined;
  let checkedAt = 0;
  let interruptedAt: number | undefined;
  try {
    for (let idle = 0; ; idle++) {
      checkOpen();
      if (signal?.aborted) return ABORTED;
      const version = hub.versionOf(key);
      const { journal, run, isHeld, exists } = await readRecords(reader, branch);
      if (!exists && turn !== undefined) return { status: "halted", reason: "the session was deleted" };
      turn ??= run?.turn;
      if (turn !== undefined && (run?.turn ?? turn) > turn) {
        // The deltas of a turn are freed when the next one starts.
        if (cursor.hasBegun) throw streamLost(reader.sessionId, branch);
        return { status: "completed", reason: undefined };
      }
      // The state was read before these records. If the turn had ended by then, they are its last ones.
      const isOver = !isHeld && state?.isOver === true;
      if (!isOver && (!isHeld || !state || performance.now() - checkedAt > CHECK_INTERVAL)) {
        state = await readState(reader, branch);
        checkedAt = performance.now();
        if (state.isOver) continue;
      }
      interruptedAt = state?.status === "interrupted" ? (interruptedAt ?? performance.now()) : undefined;
      const hasGivenUp = interruptedAt !== undefined && performance.now() - interruptedAt >= patience;
      const isLast = isOver || hasGivenUp;
      // The deltas of an interrupted attempt are returned only to readers that have begun to read them.
      const isCurrent = isHeld && journal?.stream?.epoch === journal?.epoch;
      if (journal && (isLast || (isCurrent && (interruptedAt === undefined || cursor.hasBegun)))) {
        for await (const event of cursor.read(journal, isLast)) {
          yield event;
          if (signal?.aborted) return ABORTED;
          [idle, checkedAt] = [0, performance.now()];
        }
      }
      if (isLast) return { status: state?.status ?? "open", reason: state?.reason };
      const isNotified = isHeld && hub.isWrittenHere(key);
      await hub.wait(key, version, isNotified ? NOTIFIED : idle < FAST_READS ? FAST : SLOW, signal);
    }
  } finally {
    leave();
  }
}

function toPatience(patience: Duration | undefined): number {
  return patience === undefined ? Number.POSITIVE_INFINITY : toMilliseconds(patience, "patience");
}

interface Records {
  readonly journal: JournalRecord | undefined;
  readonly run: RunRecord | undefined;
  readonly isHeld: boolean;
  readonly exists: boolean;
}

/** Reads the records of a branch and its run from one snapshot. */
async function readRecords(reader: SessionReader, branch: string): Promise<Records> {
  const { sessionId, context } = reader;
  const keys = [...reader.headKeys(branch), runKey(sessionId, branch), journalKey(sessionId, branch)];
  const [session, head, runRecord, journalRecord] = await context.store.get(keys);
  const heads = reader.toHeads(session, head, branch);
  const run = decodeRunOfSession(runRecord, heads, context.registry);
  const journal = journalRecord && "value" in journalRecord ? decodeJournal(journalRecord.value) : undefined;
  return {
    journal: journal?.number === heads.session?.record.number ? journal : undefined,
    run,
    isHeld: heads.branch?.record.held === true && run !== undefined,
    exists: heads.session !== undefined,
  };
}

interface BranchState extends StreamEnd {
  /** Whether nothing follows until a person or a new turn continues. */
  readonly isOver: boolean;
}

async function readState(reader: SessionReader, branch: string): Promise<BranchState> {
  const heads = await reader.heads(branch);
  if (!heads.branch) return { status: "open", reason: undefined, isOver: false };
  const [current] = await readBranchStatuses(reader.context, [{ sessionId: reader.sessionId, branch, heads }]);
  const { status, reason, run } = current as BranchStatus;
  const isWaitingForPerson = status === "waiting" && run?.wakeAt === undefined;
  const isOver = isWaitingForPerson || status === "completed" || status === "failed" || status === "halted";
  return { status, reason, isOver };
}
