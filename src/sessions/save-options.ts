/**
 * What a caller says about a checkpoint, checked and copied when it is said: the objects are the caller's own and may
 * change before the save is written.
 */
import { SavepointError } from "../errors.js";
import type { ClassRegistry, Shadow } from "../state/index.js";
import { toMilliseconds } from "../util/index.js";
import {
  checkId,
  type CheckpointKind,
  type CheckpointStatus,
  encodeMetadata,
  type CheckpointRow,
  type SaveOptions,
} from "../records/index.js";

/** Options of a save that nobody else can change; the metadata and the lifetime as they are stored. */
export type SaveFields = Omit<SaveOptions, "metadata" | "ttl" | "parent" | "move"> & {
  readonly parent?: string | null;
  readonly metadata: Shadow | undefined;
  /** In milliseconds. */
  readonly ttl?: number;
  /** How many migrations the state has been through; as many as the head's, if it is not said. */
  readonly version?: number;
};

const KINDS: readonly CheckpointKind[] = ["automatic", "manual", "preOperation", "recovery"];
const STATUSES: readonly CheckpointStatus[] = ["queued", "running", "waiting", "completed", "failed", "halted"];
const TEXTS = ["reason", "description", "trigger", "resumeHint"] as const;

export function parseSaveOptions(options: SaveOptions, registry: ClassRegistry): SaveFields {
  const { ttl, resetBranch, ...others } = options;
  const { id, label, kind, status, usage, pinned, parent } = others;
  if (id !== undefined) checkId(id, "checkpoint id");
  if (label !== undefined) checkId(label, "label");
  if (resetBranch && parent === undefined)
    throw invalidOption("resetBranch", true, "Name the `parent` that the branch is reset to.");
  for (const name of ["step", "tasksCompleted"] as const) {
    const count = options[name];
    if (count === undefined || (Number.isSafeInteger(count) && count >= 0)) continue;
    throw invalidOption(name, count, "Give a whole number from 0 on.");
  }
  for (const name of TEXTS) {
    const text: unknown = options[name];
    if (text !== undefined && typeof text !== "string") throw invalidOption(name, text, "Give a text.");
  }
  if (kind !== undefined && !KINDS.includes(kind)) throw invalidOption("kind", kind, `Use ${KINDS.join(", ")}.`);
  if (status !== undefined && !STATUSES.includes(status)) {
    throw invalidOption("status", status, `Use ${STATUSES.join(", ")}.`);
  }
  for (const amount of Object.values(usage ?? {})) {
    if (amount !== undefined && !Number.isFinite(amount)) throw invalidOption("usage", amount, "Give numbers.");
  }
  return {
    ...others,
    ...(usage && { usage: { ...usage } }),
    ...(pinned !== undefined && { pinned: Boolean(pinned) }),
    ...(ttl !== undefined && { ttl: toMilliseconds(ttl, "ttl") }),
    metadata: encodeMetadata(options.metadata, registry),
  };
}

/** Does a stored checkpoint say of itself what these options say? What they leave open counts as said. */
export function matchesSaveFields(row: CheckpointRow, parentId: string | undefined, options: SaveFields): boolean {
  const { parent, ...fields } = options;
  if (parent !== undefined && (parent ?? undefined) !== parentId) return false;
  return Object.entries(fields).every(
    ([key, value]) => value === undefined || JSON.stringify(row[key as keyof CheckpointRow]) === JSON.stringify(value),
  );
}

function invalidOption(name: string, value: unknown, advice: string): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    `A checkpoint cannot be saved with ${name}: ${String(value)}. ${advice} Nothing was saved.`,
  );
}
