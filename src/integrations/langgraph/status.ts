/**
 * The status of a thread. LangGraph does not tell a checkpointer whether a graph has finished, so the status is derived from
 * what the saver stores anyway: the checkpoint shows whether a task is next, the pending writes show interrupts and errors.
 */
import { ERROR, INTERRUPT, RESUME, TASKS } from "@langchain/langgraph-checkpoint";
import type { CheckpointStatus } from "../../index.js";
import type { StoredCheckpoint, StoredWrite } from "./stored.js";

/** A status, with the question of an interrupt or the message of an error as its reason. */
export interface ThreadStatus {
  /** `null` for that of the checkpoint itself. */
  readonly status: CheckpointStatus | null;
  readonly reason?: string;
}

/** LangGraph's constants that the package of the checkpointer does not export. */
const START = "__start__";
const ERROR_SOURCE_NODE = "__error_source_node__";
const BRANCH = "branch:to:";
const JOIN = "join:";

/** From this checkpoint format on, sends are stored in a channel of the checkpoint. */
const SENDS_IN_CHANNEL = 4;

/** The maximum length of a reason. The complete value is in the pending writes. */
const MAX_REASON = 300;

/**
 * The status that a checkpoint has when it is put: `completed` if no task is next; otherwise `open`, because nothing shows
 * whether a process is working on it.
 *
 * The nodes of a `StateGraph` and of an `entrypoint` are triggered by channels that can be told by their names. Other Pregel
 * graphs are `open`.
 */
export function statusOfCheckpoint(checkpoint: StoredCheckpoint): "completed" | "open" {
  // Without an input, the thread is not a graph of these kinds, or nothing has run yet.
  const isKnown = Object.hasOwn(checkpoint.channel_versions ?? {}, START) && checkpoint.v >= SENDS_IN_CHANNEL;
  return isKnown && !hasNextTask(checkpoint) ? "completed" : "open";
}

/**
 * The status that the writes of a task give to their checkpoint; `undefined` if they do not change it. The last writes decide,
 * because a graph that resumes executes all tasks again that have not completed.
 */
export function statusOfWrites(writes: readonly StoredWrite[]): ThreadStatus | undefined {
  const find = (channel: string): StoredWrite | undefined => writes.find((write) => write[1] === channel);
  const question = find(INTERRUPT);
  // A task that has received some of its answers, and asks again, writes both.
  if (question) return withReason("waiting", describeInterrupt(question[2]));
  const error = find(ERROR);
  // If the node has an error handler, the graph continues with the handler.
  if (error && !find(ERROR_SOURCE_NODE)) return withReason("failed", describe(fieldOf(error[2], "message")));
  return find(RESUME) && { status: null };
}

/** As LangGraph decides it: a node is next if a channel that triggers it has a value that the node has not seen. */
function hasNextTask({
  channel_values: values,
  channel_versions: versions,
  versions_seen: seen,
}: StoredCheckpoint): boolean {
  if (hasSends(values[TASKS])) return true;
  return Object.entries(values).some(([channel, value]) => {
    if (!isAvailable(channel, value)) return false;
    const version = versions[channel];
    const isUnseen = (node: string): boolean => {
      const last = seen?.[node]?.[channel];
      return version !== undefined && (last === undefined || version > last);
    };
    if (channel !== START) return isUnseen(channel.slice(channel.lastIndexOf(":") + 1));
    // The node is `__start__`, or has the name of the entrypoint.
    return Object.keys(seen ?? {}).every((node) => node === INTERRUPT || isUnseen(node));
  });
}

/** Whether this is a channel that triggers a node, and has its value. */
function isAvailable(channel: string, value: unknown): boolean {
  if (value === undefined) return false;
  if (channel === START) return true;
  // A channel of a deferred node stores its value, and whether the node may run.
  const [inner, isFinished] = isDeferred(value) ? value : [value, true];
  if (!isFinished) return false;
  if (channel.startsWith(BRANCH)) return true;
  if (!channel.startsWith(JOIN) || !Array.isArray(inner)) return false;
  // `join:a+b:node` waits for a and b, and has the names of those that have finished. A name can contain a plus sign.
  const names = channel.slice(JOIN.length, channel.lastIndexOf(":"));
  return inner.join("+").length === names.length;
}

function isDeferred(value: unknown): value is [value: unknown, isFinished: boolean] {
  return Array.isArray(value) && value.length === 2 && typeof value[1] === "boolean";
}

/** Whether a channel of sends has any. It stores a list; earlier versions stored two. */
function hasSends(value: unknown): boolean {
  if (!Array.isArray(value)) return false;
  const [first, second] = value as unknown[];
  return value.length === 2 && Array.isArray(first) && Array.isArray(second) ? second.length > 0 : value.length > 0;
}

/** Earlier versions of LangGraph stored a list of interrupts. */
function describeInterrupt(stored: unknown): string | undefined {
  return describe(fieldOf(Array.isArray(stored) ? stored[0] : stored, "value"));
}

/** A string as it is, anything else as JSON; shortened. */
function describe(value: unknown): string | undefined {
  const text = typeof value === "string" ? value : toJson(value);
  if (text === undefined || text.length <= MAX_REASON) return text;
  return `${text.slice(0, MAX_REASON - 1)}…`;
}

function toJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    // A bigint, for example.
    return undefined;
  }
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function withReason(status: CheckpointStatus, reason: string | undefined): ThreadStatus {
  return reason === undefined ? { status } : { status, reason };
}
