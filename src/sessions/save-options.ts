/**
 * Parsing the options of a save. They are copied when `save` is called, because the caller may change the objects before the
 * save is written.
 */
import { SavepointError } from "../errors.js";
import type { ClassRegistry, Shadow } from "../state/index.js";
import { invalidArgument, toMilliseconds } from "../util/index.js";
import {
  checkId,
  type CheckpointKind,
  CHECKPOINT_STATUSES,
  type CheckpointStatus,
  encodeMetadata,
  type CheckpointRow,
  type SaveOptions,
  type StatusNote,
} from "../records/index.js";
import { integrationOptions, type ParentAnnotations, rejectReserved } from "./reserved.js";

/** Parsed options of a save: a private copy, with the metadata and the lifetime as they are stored. */
export type SaveFields = Omit<SaveOptions, "metadata" | "ttl" | "parent" | "resetBranch"> & {
  readonly parent?: string | null;
  readonly metadata: Shadow | undefined;
  /** In milliseconds. */
  readonly ttl?: number;
  /** The number of migrations applied to the state. @default that of the head */
  readonly version?: number;
  /** New annotations of the head, in the same commit. If the commit conflicts, it is not tried again. */
  readonly annotations?: ParentAnnotations;
};

const KINDS: readonly CheckpointKind[] = ["automatic", "manual", "preOperation", "recovery"];
const TEXTS = ["reason", "description", "trigger", "resumeHint"] as const;

/** Validates and copies the options of a save. Throws `INVALID_ARGUMENT` or `INVALID_ID`. */
export function parseSaveOptions(options: SaveOptions, registry: ClassRegistry): SaveFields {
  const { ttl, resetBranch, ...others } = options;
  const { annotations } = integrationOptions(options);
  const { id, label, kind, status, usage, pinned, parent } = others;
  if (id !== undefined) checkId(id, "checkpoint id");
  rejectReserved(Object.keys(options.metadata ?? {}), options, "A metadata key");
  if (label !== undefined) checkId(label, "label");
  if (resetBranch && parent === undefined)
    throw invalidOption("resetBranch", true, "Name the `parent` that the branch is reset to.");
  for (const name of ["step", "tasksCompleted"] as const) {
    const count = options[name];
    if (count === undefined || (Number.isSafeInteger(count) && count >= 0)) continue;
    throw invalidOption(name, count, "Pass a non-negative integer.");
  }
  for (const name of TEXTS) {
    const text: unknown = options[name];
    if (text !== undefined && typeof text !== "string") throw invalidOption(name, text, "Pass a string.");
  }
  if (kind !== undefined && !KINDS.includes(kind)) throw invalidOption("kind", kind, `Use ${KINDS.join(", ")}.`);
  if (status !== undefined && !CHECKPOINT_STATUSES.includes(status)) {
    throw invalidOption("status", status, `Use ${CHECKPOINT_STATUSES.join(", ")}.`);
  }
  for (const amount of Object.values(usage ?? {})) {
    if (amount !== undefined && !Number.isFinite(amount)) throw invalidOption("usage", amount, "Pass finite numbers.");
  }
  return {
    ...others,
    ...(usage && { usage: { ...usage } }),
    ...(pinned !== undefined && { pinned: Boolean(pinned) }),
    ...(ttl !== undefined && { ttl: toMilliseconds(ttl, "ttl") }),
    ...(annotations && { annotations }),
    metadata: encodeMetadata(options.metadata, registry),
  };
}

/** Validates a status that is set after the save; `null` removes it, and `undefined` leaves it unchanged. Throws `INVALID_ARGUMENT`. */
export function parseStatusNote(options: {
  readonly status?: CheckpointStatus | null;
  readonly reason?: string;
}): StatusNote | null | undefined {
  const { status, reason } = options;
  if (status === undefined || status === null) return status;
  if (!CHECKPOINT_STATUSES.includes(status)) {
    throw invalidArgument(`\`status\` is invalid: got ${String(status)}. Use ${CHECKPOINT_STATUSES.join(", ")}.`);
  }
  if (reason !== undefined && typeof reason !== "string") {
    throw invalidArgument(`\`reason\` must be a string, got ${String(reason)}.`);
  }
  return { status, reason };
}

/** Returns whether a stored checkpoint matches these options. Options that are not set match everything. */
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
    `The option \`${name}\` of a save is invalid: got ${String(value)}. ${advice} Nothing was saved.`,
  );
}
