/**
 * Finds the recorded call that a call of the model repeats.
 *
 * A model that resumes after a crash makes its call again, with a new id. So calls are matched by the name and the input of the tool.
 * A model may also make the same call twice on purpose: then the result of the first one is in its transcript.
 */
import { createHash } from "node:crypto";
import type { JournalEntry } from "../../index.js";
import type { TranscriptEntry } from "./types.js";

/** What is recorded of a call that has ended. */
export type CallResult =
  | { readonly toolUseId: string; readonly output: unknown }
  | { readonly toolUseId: string; readonly error: string }
  /** Claude Code did not execute it: a person or a rule has denied it. */
  | { readonly toolUseId: string; readonly refused: true };

/** Reads a recorded value: a result, or what a person or a `verify` function has answered instead. */
export function parseResult(value: unknown): CallResult {
  const result = value as Partial<CallResult> | undefined | null;
  return typeof result?.toolUseId === "string" ? (result as CallResult) : { toolUseId: "", output: value };
}

/** The calls of a turn, recorded or made since. */
export class CallLog {
  /** The numbers of recorded calls whose results the model does not know, by the identity of the call. */
  readonly #unseen = new Map<string, number[]>();
  readonly #counts = new Map<string, number>();

  /**
   * @param entries the journal of the turn
   * @param transcript what the model knows
   */
  constructor(entries: readonly JournalEntry[], transcript: readonly TranscriptEntry[]) {
    const seen = findResults(transcript);
    for (const { kind, callId = "", value, outcome } of entries) {
      const end = callId.lastIndexOf("#");
      if (kind !== "tool" || end < 0) continue;
      const [identity, number] = [callId.slice(0, end), Number(callId.slice(end + 1))];
      this.#counts.set(identity, Math.max(this.#counts.get(identity) ?? 0, number + 1));
      const result = outcome === "recorded" ? parseResult(value) : undefined;
      const isSeen = result && ("refused" in result || seen.has(result.toolUseId));
      if (!isSeen)
        this.#unseen.set(
          identity,
          [...(this.#unseen.get(identity) ?? []), number].sort((a, b) => a - b),
        );
    }
  }

  /**
   * The id under which a call is recorded: that of the first recorded call that it repeats, or a new one.
   *
   * @param input with sorted keys
   */
  next(name: string, input: unknown): string {
    const identity = `${name}:${digestOf(input)}`;
    const repeated = this.#unseen.get(identity)?.shift();
    if (repeated !== undefined) return `${identity}#${repeated}`;
    const number = this.#counts.get(identity) ?? 0;
    this.#counts.set(identity, number + 1);
    return `${identity}#${number}`;
  }
}

/** What Claude Code writes as the result of a call whose own result is missing. */
const MISSING = /^\[(?:Tool call|Request|Agent call) /;

/** The ids of the calls whose results the model has received. */
function findResults(transcript: readonly TranscriptEntry[]): Set<string> {
  const found = new Set<string>();
  for (const { message } of transcript) {
    const content: unknown = (message as { readonly content?: unknown } | undefined)?.content;
    if (!Array.isArray(content)) continue;
    for (const part of content as readonly Readonly<Record<string, unknown>>[]) {
      if (part?.["type"] !== "tool_result" || typeof part["tool_use_id"] !== "string") continue;
      if (part["is_error"] === true && MISSING.test(textOf(part["content"]))) continue;
      found.add(part["tool_use_id"]);
    }
  }
  return found;
}

function textOf(content: unknown): string {
  const [first] = Array.isArray(content) ? (content as unknown[]) : [content];
  const text = typeof first === "string" ? first : (first as { readonly text?: unknown } | undefined)?.text;
  return typeof text === "string" ? text : "";
}

function digestOf(input: unknown): string {
  const json = JSON.stringify(input) as string | undefined;
  return createHash("sha256")
    .update(json ?? "")
    .digest("base64url")
    .slice(0, 16);
}

/** A copy of JSON with its keys in order: the order in which a model writes them does not matter. */
export function sortKeys(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(sortKeys);
  if (typeof json !== "object" || json === null) return json;
  const entries = Object.entries(json).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, value]) => [key, sortKeys(value)]));
}
