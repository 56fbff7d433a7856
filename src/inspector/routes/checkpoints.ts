/** Checkpoints with their states, parts of states, and differences. */
import { type Change, type CheckpointInfo, type Json, SavepointError } from "../../index.js";
import type {
  AgentCheckpointView,
  AnyCheckpointDetail,
  ChangeView,
  CheckpointDetail,
  Diff,
  StatePart,
} from "../api.js";
import { boundJson, parsePointer, resolvePointer } from "../data/bounded-json.js";
import type { LoadedState } from "../data/state-cache.js";
import { omitUndefined, toCheckpointView } from "../data/views.js";
import { badRequest } from "../http/errors.js";
import { refOf } from "../http/input.js";
import { toWire } from "../http/responses.js";
import type { Call, Route } from "../http/router.js";
import type { Services } from "../services.js";
import { messagesOf, NEWEST_MESSAGES } from "./messages.js";

/** The characters of a state in a response: by default, and at most. */
const DEFAULT_STATE = 262_144;
const MAX_STATE = 8 * 1024 * 1024;
/** The characters of one value in a list of changes. */
const MAX_CHANGE = 4000;
const MAX_CHANGES = 10_000;

export function checkpointRoutes(services: Services): readonly Route[] {
  return [
    {
      method: "GET",
      path: "/api/sessions/:id/checkpoint",
      query: ["at", "branch", "maxBytes"],
      async run({ params: { id = "" }, query }): Promise<CheckpointDetail> {
        const info = await services.states.info(id, refOf(query), query.text("branch"));
        return toCheckpointDetail(info, await services.states.load(info), query);
      },
    },
    {
      method: "GET",
      path: "/api/checkpoint",
      query: ["id", "maxBytes"],
      run: (call) => readAnyCheckpoint(services, call),
    },
    {
      method: "GET",
      path: "/api/sessions/:id/state",
      query: ["at", "branch", "pointer", "maxBytes"],
      run: (call) => readStatePart(services, call),
    },
    {
      method: "GET",
      path: "/api/sessions/:id/diff",
      query: ["from", "to", "branch", "limit"],
      run: (call) => compare(services, call),
    },
  ];
}

function toCheckpointDetail(
  info: CheckpointInfo,
  { checkpoint, json }: LoadedState,
  query: Call["query"],
): CheckpointDetail {
  const { state, holes, skipped, pendingToolCalls } = checkpoint;
  return omitUndefined({
    checkpoint: toCheckpointView(info),
    ...boundState(json, query),
    holes,
    skipped,
    messages: messagesOf(state, NEWEST_MESSAGES),
    pendingToolCalls: toWire(pendingToolCalls) as unknown as CheckpointDetail["pendingToolCalls"],
  });
}

function boundState(json: Json, query: Call["query"]): Pick<CheckpointDetail, "state" | "isComplete"> {
  const { value, isComplete } = boundJson(json, query.count("maxBytes", MAX_STATE) ?? DEFAULT_STATE);
  return { state: value, isComplete };
}

/** A checkpoint by its id: of a session or of a whole agent. */
async function readAnyCheckpoint({ sp, states }: Services, { query }: Call): Promise<AnyCheckpointDetail> {
  const id = query.required("id");
  const checkpoint = await sp.checkpoints.load(id);
  if (!checkpoint) throw new SavepointError("CHECKPOINT_NOT_FOUND", `There is no checkpoint ${JSON.stringify(id)}.`);
  if (checkpoint.sessionId !== undefined) {
    const { state: _state, pendingToolCalls: _calls, holes: _holes, skipped: _skipped, ...info } = checkpoint;
    return toCheckpointDetail(info, await states.load(info), query);
  }
  const { state: agent, conversations, erased, ...info } = checkpoint;
  return {
    checkpoint: toWire(info) as unknown as AgentCheckpointView,
    ...boundState(toWire({ agent, conversations, erased }), query),
    holes: [],
    skipped: agent.skipped,
    pendingToolCalls: [],
  };
}

async function readStatePart({ states }: Services, { params: { id = "" }, query }: Call): Promise<StatePart> {
  const pointer = query.text("pointer") ?? "";
  const keys = parsePointer(pointer);
  if (!keys) throw badRequest(`${JSON.stringify(pointer)} is not a JSON pointer: it must begin with "/".`);
  const info = await states.info(id, refOf(query), query.text("branch"));
  const { json } = await states.load(info);
  const part = resolvePointer(json, keys);
  if (part === undefined) throw badRequest(`The state has nothing at ${JSON.stringify(pointer)}.`);
  const { value, isComplete } = boundJson(part, query.count("maxBytes", MAX_STATE) ?? DEFAULT_STATE, pointer);
  return { pointer, value, isComplete };
}

async function compare({ sp, states }: Services, { params: { id = "" }, query }: Call): Promise<Diff> {
  const branch = query.text("branch");
  const limit = query.count("limit", MAX_CHANGES) ?? 1000;
  const to = await states.info(id, refOf(query, "to"), branch);
  const given = refOf(query, "from");
  const from = given !== undefined ? await states.info(id, given, branch) : await parentOf(states, id, to);
  if (!from) {
    const { json } = await states.load(to);
    return toDiff([{ op: "add", path: "", value: json }], undefined, to, limit);
  }
  return toDiff(await sp.session(id).diff(from.id, to.id), from, to, limit);
}

async function parentOf(
  states: Services["states"],
  sessionId: string,
  { parentSeq }: CheckpointInfo,
): Promise<CheckpointInfo | undefined> {
  if (parentSeq === undefined) return undefined;
  try {
    return await states.info(sessionId, { seq: parentSeq });
  } catch (error) {
    // It was pruned.
    if (error instanceof SavepointError && error.code === "CHECKPOINT_NOT_FOUND") return undefined;
    throw error;
  }
}

export function toDiff(
  changes: readonly Change[],
  from: CheckpointInfo | undefined,
  to: CheckpointInfo | undefined,
  limit: number,
): Diff {
  return omitUndefined({
    from: from && toCheckpointView(from),
    to: to && toCheckpointView(to),
    changes: changes.slice(0, limit).map(toChangeView),
    total: changes.length,
  });
}

/** A change with bounded values. */
export function toChangeView(change: Change): ChangeView {
  const bound = (value: unknown): Json => boundJson(toWire(value), MAX_CHANGE, change.path).value;
  const { op, path } = change;
  if (op === "add") return { op, path, value: bound(change.value) };
  if (op === "remove") return { op, path, before: bound(change.before) };
  return { op, path, before: bound(change.before), value: bound(change.value) };
}
