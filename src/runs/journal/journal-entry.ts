/** The effects of a journal as users see them. */
import type { CheckpointRef, Usage } from "../../records/index.js";
import type { EffectKind } from "../../events/index.js";
import { type ClassRegistry, type Hole, type Shadow, shadowToValue, toJson } from "../../state/index.js";
import { invalidArgument, validateCount } from "../../util/index.js";
import { type CurrentStep, describeInStep } from "./current-step.js";
import type { EffectClaim, EffectRecord } from "./effect-record.js";
import type { Settler } from "./entry.js";
import { describeThrown } from "./recorded-error.js";
import { describeReply } from "./reply-text.js";

/** Which effects are listed, and how much of them. */
export interface JournalOptions {
  /**
   * Lists the effects of all steps along the history of the branch, not only of the current step.
   * @default false
   */
  readonly all?: boolean;
  /**
   * `"newest"` lists the newest first and reads no further than it is iterated. `"oldest"` reads the rows of all checkpoints first.
   * @default "oldest"
   */
  readonly order?: "oldest" | "newest";
  /** The maximum number of effects. @default all */
  readonly limit?: number;
  /**
   * How much of arguments and results is returned: everything, nothing, or up to this many characters of their JSON. What is
   * longer becomes a string that ends with "…".
   * @default "full"
   */
  readonly values?: "full" | "none" | number;
  /**
   * With `order: "newest"`: lists the effects up to this checkpoint, which is on the branch, and not later ones. For paging.
   * @default the effects up to now
   */
  readonly from?: CheckpointRef;
}

/** An effect of a step. */
export interface JournalEntry {
  /** The number of inputs that the session had received. */
  readonly turn: number;
  /** The number of its step, from 1. */
  readonly step: number | undefined;
  /** Its number among the effects of the step, in the order of their starts, from 0. */
  readonly index: number;
  readonly kind: EffectKind;
  readonly name: string;
  /** The id of the tool call. */
  readonly callId: string | undefined;
  /** The arguments of a tool. */
  readonly arguments: unknown;
  /** When it was started for the first time, in milliseconds since 1970. */
  readonly startedAt: number;
  /** When it was executed, in milliseconds since 1970, if a later attempt of the step has executed it again. */
  readonly executedAt: number | undefined;
  /**
   * How long it took, with all attempts, in milliseconds; for a question, the time until the answer. `undefined` if there is no
   * result, or if a person gave the result.
   */
  readonly duration: number | undefined;
  /** How often its function was called. */
  readonly attempts: number;
  /**
   * `recorded`: it has returned, and is not executed again. `failed`: it has thrown, and the error is recorded. `running`: it
   * is in progress. `unknown`: its process has died, and whether it happened is unknown. `again`: it is executed again,
   * because it failed or a person answered that it did not happen.
   */
  readonly outcome: "recorded" | "failed" | "running" | "unknown" | "again";
  /**
   * What settled its outcome, if the outcome was unknown: a person's answer, or the function `verify` of the tool. If the answer
   * was that it did not happen, the effect was executed again and has a duration.
   */
  readonly settledBy: Settler | undefined;
  /** When a person has answered it, or has given its result, in milliseconds since 1970. */
  readonly answeredAt: number | undefined;
  /** The value that it returned. */
  readonly value: unknown;
  /**
   * Of a model, on one line: the text of its reply and the tools that it calls, such as `calls refund({"order":"88"})`. At most 200
   * characters. `undefined` if the format of the reply is unknown, or with `values: "none"`.
   */
  readonly reply: string | undefined;
  /** The error that it threw; with the outcome `again`, in its last attempt. */
  readonly error: { readonly name: string; readonly message: string } | undefined;
  readonly usage: Usage | undefined;
  /** When a sleep ends, in milliseconds since 1970. */
  readonly until: number | undefined;
  /**
   * The host and the pid of the worker that executed it, such as `web-1:4711`. Of a long host name only the end is stored.
   * `undefined` if `sp.run()` or `sp.recover()` executed it.
   */
  readonly worker: string | undefined;
  /** The claims under which it was recorded, oldest first: several if another process has resumed its step. */
  readonly claims: readonly EffectClaim[];
  /** The idempotency key that its function gets; only in the current step. */
  readonly idempotencyKey: string | undefined;
  /** The id of the open question that it asks, or that is about its unknown outcome. */
  readonly question: string | undefined;
  /** The checkpoint that lists it; `undefined` in a step without a checkpoint so far. */
  readonly checkpoint: { readonly seq: number; readonly id: string } | undefined;
  /** The parts of its arguments and its value that cannot be read, with paths such as `/value/3`: damaged, or of an unknown class. */
  readonly holes: readonly Hole[];
}

/** Effects that cannot be listed, because their entries are damaged. */
export interface JournalHole {
  readonly kind: "hole";
  readonly turn: number;
  readonly reason: string;
  readonly checkpoint: { readonly seq: number; readonly id: string } | undefined;
}

/** A tool call, in short. */
export interface EffectSummary {
  readonly name: string;
  readonly callId: string | undefined;
  /** The arguments as JSON, of limited length. */
  readonly arguments: string;
  readonly step: number | undefined;
  /** The seq of the checkpoint after it; `undefined` in an unfinished step. */
  readonly seq: number | undefined;
  /** `recorded`: it has returned. `unknown`: it was started, and whether it happened is unknown. */
  readonly outcome: "recorded" | "unknown";
}

/** What the entries of an effect do not contain. */
export interface EffectSurroundings extends Pick<JournalEntry, "turn" | "step" | "worker" | "holes" | "checkpoint"> {
  /** The unfinished step, if the effect belongs to it. */
  readonly inStep: CurrentStep | undefined;
  readonly registry: ClassRegistry;
  /** The outcome of an effect without a result. */
  readonly open: "running" | "unknown";
  readonly values: "full" | "none" | number;
}

/** Describes an effect by its entries; `undefined` if its start is missing. */
export function describeEffect(
  { index, operations, claims, nth }: EffectRecord,
  { registry, open, values, inStep, ...fields }: EffectSurroundings,
): JournalEntry | undefined {
  const started = operations.flatMap((each) => ("started" in each && each.started ? [each.started] : [])).at(-1);
  const last = operations.at(-1);
  if (!started || !last) return undefined;
  const { kind, name, callId, args, at, until } = started;
  const hasKey = kind === "llm" || kind === "tool" || kind === "effect";
  const ends = operations.filter((each) => each.op === "end");
  const end = last.op === "end" ? last : undefined;
  const outcome = "outcome" in last ? last.outcome : undefined;
  const isAgain = last.op === "again";
  // An effect that is to be executed again shows the error with which it failed.
  const ended = outcome ?? (isAgain && !last.settledBy ? ends.at(-1)?.outcome : undefined);
  const error = ended && "error" in ended ? ended.error : undefined;
  // A sleep and a question have no effect on the outside world, so their outcome is never unknown.
  const isIdle = kind === "sleep" || kind === "ask";
  const unreadable: Hole[] = [];
  const decode = (shadow: Shadow, path: string): unknown => {
    if (values === "none") return undefined;
    try {
      return shadowToValue(shadow, registry);
    } catch (error) {
      // Its class is not registered here, or fails to decode it. The list of effects is needed all the same.
      unreadable.push({ path, reason: describeThrown(error) });
      return undefined;
    }
  };
  // Only the hash of a model's input is stored.
  const given = kind === "llm" || args === undefined ? undefined : decode(args, "/arguments");
  const returned = outcome && "value" in outcome ? decode(outcome.value, "/value") : undefined;
  return {
    ...fields,
    holes: [...fields.holes, ...unreadable],
    index,
    kind,
    name,
    callId,
    arguments: boundValue(given, values),
    startedAt: at,
    executedAt: end?.executedAt,
    duration: kind === "ask" && end?.answeredAt !== undefined ? Math.max(0, end.answeredAt - at) : end?.took,
    attempts: Math.max(
      1,
      ends.reduce((sum, { attempts = 1 }) => sum + attempts, 0),
    ),
    outcome: outcome ? (error ? "failed" : "recorded") : isAgain ? "again" : isIdle ? "running" : open,
    settledBy: operations.flatMap((each) => ("settledBy" in each && each.settledBy ? [each.settledBy] : [])).at(-1),
    answeredAt: end?.answeredAt,
    value: boundValue(returned, values),
    reply: kind === "llm" ? describeReply(returned) : undefined,
    error: error && { name: error.name, message: error.message },
    usage: end?.usage,
    until,
    claims,
    ...describeInStep(inStep, { index, callId, nth, hasKey }),
  };
}

function boundValue(value: unknown, values: "full" | "none" | number): unknown {
  if (typeof values === "string" || value === undefined) return value;
  const text = typeof value === "string" ? value : (JSON.stringify(toJson(value)) ?? "");
  return text.length <= values ? value : `${text.slice(0, values)}…`;
}

/** Validates the options of a listing. */
export function parseJournalOptions(options: JournalOptions): JournalOptions {
  const { values = "full", order = "oldest", limit, all = false, from } = options;
  if (limit !== undefined) validateCount(limit, "`limit`");
  if (values !== "full" && values !== "none") validateCount(values, "`values`");
  if (order !== "oldest" && order !== "newest") {
    throw invalidArgument(`\`order\` must be "oldest" or "newest", got ${JSON.stringify(order)}.`);
  }
  if (order === "newest" && !all) throw invalidArgument('`order: "newest"` needs `all: true`.');
  if (from !== undefined && order !== "newest") throw invalidArgument('`from` needs `order: "newest"`.');
  return { values, order, all, ...(limit !== undefined && { limit }), ...(from !== undefined && { from }) };
}
