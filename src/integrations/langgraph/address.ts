/** The addresses of threads and checkpoints in the `configurable` part of a LangGraph config. */
import type { RunnableConfig } from "@langchain/core/runnables";
import { getCheckpointId } from "@langchain/langgraph-checkpoint";
import { invalidArgument } from "./errors.js";

/** A namespace of a thread: empty for the graph itself, non-empty for a subgraph. */
export interface ThreadAddress {
  readonly thread: string;
  readonly namespace: string;
}

/** A checkpoint; `undefined` means the newest one of the namespace. */
export interface CheckpointAddress extends ThreadAddress {
  readonly checkpoint: string | undefined;
}

/** The address in a config; `undefined` if it has no thread. */
export function parseAddress(config: RunnableConfig | undefined): CheckpointAddress | undefined {
  const { thread_id: thread, checkpoint_ns: namespace } = config?.configurable ?? {};
  if (thread === undefined || thread === null) return undefined;
  return { ...toThreadAddress(thread, namespace ?? ""), checkpoint: checkpointOf(config) };
}

/** Like {@link parseAddress}, but fails without a thread. @param what the subject of the error message */
export function requireAddress(config: RunnableConfig | undefined, what: string): CheckpointAddress {
  const address = parseAddress(config);
  if (address) return address;
  throw invalidArgument(
    `${what} cannot be saved without a thread_id. Pass graph.invoke(input, { configurable: { thread_id: "…" } }).`,
  );
}

/** Validates a thread id and returns it as a string. */
export function checkThreadId(thread: unknown): string {
  // Many examples use numbers; the savers for SQLite and PostgreSQL convert them to strings as well.
  const id = typeof thread === "number" ? String(thread) : thread;
  if (typeof id === "string" && id !== "") return id;
  throw invalidArgument(
    `thread_id must be a non-empty string, got ${id === "" ? "an empty string" : typeof id}. Pass { configurable: { thread_id: "…" } }.`,
  );
}

/** The config of a checkpoint. */
export function configOf({ thread, namespace }: ThreadAddress, checkpoint: string): RunnableConfig {
  return { configurable: { thread_id: thread, checkpoint_ns: namespace, checkpoint_id: checkpoint } };
}

/** The id of a checkpoint in its session. Namespaces of a thread can have the same ids. */
export function storedId({ namespace }: ThreadAddress, checkpoint: string): string {
  return namespace === "" ? checkpoint : `${namespace}/${checkpoint}`;
}

/** The inverse of {@link storedId}. */
export function checkpointId({ namespace }: ThreadAddress, stored: string): string {
  return namespace === "" ? stored : stored.slice(namespace.length + 1);
}

/** The branch of a namespace: its head is the newest checkpoint. */
export function branchOf({ namespace }: ThreadAddress): string {
  return namespace === "" ? "main" : `/${namespace}`;
}

function toThreadAddress(thread: unknown, namespace: unknown): ThreadAddress {
  if (typeof namespace === "string") return { thread: checkThreadId(thread), namespace };
  throw invalidArgument(`checkpoint_ns must be a string, got ${typeof namespace}.`);
}

function checkpointOf(config: RunnableConfig | undefined): string | undefined {
  const id: unknown = config && getCheckpointId(config);
  if (id === "" || id === undefined) return undefined;
  if (typeof id === "string") return id;
  throw invalidArgument(`checkpoint_id must be a string, got ${typeof id}.`);
}
