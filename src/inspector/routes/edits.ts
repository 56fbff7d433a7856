/** Writes to a session: forks with edits, rewinds, labels and pins. And the preview of an edit, which writes nothing. */
import {
  applyChanges,
  type Change,
  type CheckpointInfo,
  type CheckpointRef,
  fromJson,
  type JournalEntry,
  type Savepoint,
} from "../../index.js";
import type {
  Diff,
  Done,
  ForkRequest,
  ForkResponse,
  LabelRequest,
  PinRequest,
  RewindRequest,
  RewindResponse,
} from "../api.js";
import { escapePointer } from "../data/bounded-json.js";
import { isSameStep } from "../data/journal-pages.js";
import { diffJson } from "../data/json-diff.js";
import { omitUndefined, toCheckpointView } from "../data/views.js";
import { badRequest } from "../http/errors.js";
import { anything, array, boolean, checkpointRef, object, optional, readFields, string } from "../http/input.js";
import { toWire } from "../http/responses.js";
import type { Call, Route } from "../http/router.js";
import type { Services } from "../services.js";
import { toDiff } from "./checkpoints.js";

const MAX_CHANGES = 1000;

export function editRoutes(services: Services): readonly Route[] {
  const write = (path: string, run: (services: Services, call: Call) => Promise<Write>): Route => ({
    method: "POST",
    path: `/api/sessions/:id/${path}`,
    write: true,
    async run(call) {
      const { result, changed } = await run(services, call);
      await services.changed(call.params["id"] ?? "", changed);
      return result;
    },
  });
  return [
    { method: "POST", path: "/api/sessions/:id/preview", run: (call) => previewEdit(services, call) },
    write("fork", fork),
    write("rewind", rewind),
    write("label", setLabel),
    write("pin", setPin),
  ];
}

/** The response to a write, and the seqs of older checkpoints that it has changed. */
interface Write {
  readonly result: ForkResponse | RewindResponse | Done;
  readonly changed: readonly number[];
}

/** The fields of an edit, as they were sent. */
interface EditFields {
  readonly checkpoint: CheckpointRef;
  readonly state?: unknown;
  readonly changes?: readonly unknown[] | undefined;
  readonly results?: Readonly<Record<string, unknown>> | undefined;
}

const EDIT = {
  checkpoint: checkpointRef,
  state: anything,
  changes: optional(array),
  results: optional(object),
};

async function fork({ sp, states }: Services, { params: { id = "" }, body }: Call): Promise<Write> {
  const fields = readFields<
    EditFields & Record<keyof Pick<ForkRequest, "branch" | "label" | "description">, string | undefined>
  >(await body(), { ...EDIT, branch: optional(string), label: optional(string), description: optional(string) });
  const info = await states.info(id, fields.checkpoint);
  const { branch, label, description, results } = fields;
  const edited = await editedState(states, info, fields);
  // A label needs a checkpoint of its own.
  const isNew = edited !== undefined || label !== undefined || description !== undefined;
  const state =
    edited ?? (isNew && results === undefined ? { state: (await states.load(info)).checkpoint.state } : undefined);
  const session = sp.session(id, { branch: info.branch });
  const forked = await session.fork(info.id, {
    ...omitUndefined({ branch }),
    ...(results !== undefined && { results: fromJson(results) as Readonly<Record<string, unknown>> }),
    ...(state && { state: state.state, trigger: "inspector", ...omitUndefined({ label, description }) }),
  });
  const head = await forked.head();
  return { result: omitUndefined({ branch: forked.branch, head: head && toCheckpointView(head) }), changed: [] };
}

async function previewEdit({ sp, states }: Services, { params: { id = "" }, body }: Call): Promise<Diff> {
  const fields = readFields<EditFields>(await body(), EDIT);
  const info = await states.info(id, fields.checkpoint);
  const edited = await editedState(states, info, fields);
  if (fields.results) {
    const changes = await compareResults(sp, info, fields.results);
    return toDiff(changes, info, undefined, MAX_CHANGES);
  }
  if (!edited) return toDiff([], info, undefined, 0);
  const { json } = await states.load(info);
  return toDiff(diffJson(json, toWire(edited.state)), info, undefined, MAX_CHANGES);
}

/** Compares new results of tools with those that the step has recorded. */
async function compareResults(
  sp: Savepoint,
  { sessionId, branch, seq }: CheckpointInfo,
  results: Readonly<Record<string, unknown>>,
): Promise<Change[]> {
  const recorded = new Map<string, unknown>();
  let newest: JournalEntry | undefined;
  const options = { all: true, order: "newest", from: { seq } } as const;
  for await (const entry of sp.session(sessionId, { branch }).journal(options)) {
    if (entry.kind === "hole") continue;
    newest ??= entry;
    if (!isSameStep(newest, entry)) break;
    const hasResult = entry.outcome === "recorded" || entry.outcome === "failed";
    if (entry.kind === "tool" && entry.callId !== undefined && hasResult) {
      recorded.set(entry.callId, entry.error ?? entry.value);
    }
  }
  return Object.entries(results).flatMap(([callId, result]) => {
    if (!recorded.has(callId)) {
      const known = [...recorded.keys()].map((each) => JSON.stringify(each)).join(", ") || "none";
      throw badRequest(
        `The step has no result of a tool call ${JSON.stringify(callId)}. Calls with results: ${known}.`,
      );
    }
    return diffJson(toWire(recorded.get(callId)), toWire(fromJson(result)), `/results/${escapePointer(callId)}`);
  });
}

/** The state after an edit, in a box because it can be `undefined`; no box if the edit changes no state. */
async function editedState(
  states: Services["states"],
  info: CheckpointInfo,
  { state, changes, results }: EditFields,
): Promise<{ readonly state: unknown } | undefined> {
  if ([state, changes, results].filter((each) => each !== undefined).length > 1) {
    throw badRequest("Pass only one of `state`, `changes` and `results`.");
  }
  if (state !== undefined) return { state: fromJson(state) };
  if (!changes) return undefined;
  const { checkpoint } = await states.load(info);
  const parsed = changes.map((change, index) => parseChange(change, index, checkpoint.state));
  return { state: applyChanges(checkpoint.state, parsed) };
}

function parseChange(change: unknown, index: number, state: unknown): Change {
  const name = `changes[${index}]`;
  const { op, path, value } = object(change, name);
  if (typeof path !== "string") throw badRequest(`\`${name}.path\` must be a JSON pointer.`);
  const place = toStatePointer(path, state);
  if (op === "remove") return { op, path: place, before: undefined };
  if (op !== "add" && op !== "replace") throw badRequest(`\`${name}.op\` must be "add", "replace" or "remove".`);
  if (value === undefined) throw badRequest(`\`${name}.value\` is missing.`);
  return op === "add"
    ? { op, path: place, value: fromJson(value) }
    : { op, path: place, before: undefined, value: fromJson(value) };
}

/** The pointer of a part in the state, given its pointer in the JSON, where the entries of a Map are below `$map`. */
function toStatePointer(pointer: string, state: unknown): string {
  const keys: string[] = [];
  let value = state;
  for (const [index, escaped] of pointer.split("/").entries()) {
    if (index === 0) continue;
    const key = escaped.replaceAll("~1", "/").replaceAll("~0", "~");
    if (value instanceof Map && key === "$map") continue;
    keys.push(escaped);
    if (value instanceof Map) value = value.get(key);
    else value = typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined;
  }
  return keys.map((key) => `/${key}`).join("");
}

async function rewind({ sp, states }: Services, { params: { id = "" }, body }: Call): Promise<Write> {
  const { checkpoint, branch } = readFields<{ checkpoint: CheckpointRef; branch: string | undefined }>(await body(), {
    checkpoint: checkpointRef,
    branch: optional(string),
  } satisfies Record<keyof RewindRequest, unknown>);
  const info = await states.info(id, checkpoint);
  const { effectsAfter, ...head } = await sp.session(id, { branch: branch ?? "main" }).rewind(info.id);
  const listed = toWire(effectsAfter) as unknown as RewindResponse["effectsAfter"];
  return { result: { checkpoint: toCheckpointView(head), effectsAfter: listed }, changed: [] };
}

async function setLabel({ sp, states }: Services, { params: { id = "" }, body }: Call): Promise<Write> {
  const { checkpoint, label } = readFields<{ checkpoint: CheckpointRef; label: string | null }>(await body(), {
    checkpoint: checkpointRef,
    label: (value: unknown, name: string) => (value === null ? null : string(value, name)),
  } satisfies Record<keyof LabelRequest, unknown>);
  const info = await states.info(id, checkpoint);
  await sp.session(id).label(info.id, label ?? undefined);
  return { result: { done: true }, changed: [info.seq] };
}

async function setPin({ sp, states }: Services, { params: { id = "" }, body }: Call): Promise<Write> {
  const { checkpoint, pinned } = readFields<{ checkpoint: CheckpointRef; pinned: boolean }>(await body(), {
    checkpoint: checkpointRef,
    pinned: boolean,
  } satisfies Record<keyof PinRequest, unknown>);
  const info = await states.info(id, checkpoint);
  await sp.session(id).pin(info.id, pinned);
  return { result: { done: true }, changed: [info.seq] };
}
