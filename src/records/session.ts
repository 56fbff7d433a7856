/**
 * The record of a session, and the keys that find sessions.
 *
 * The record holds the counters of the session. Every commit to a branch checks and replaces the session's record
 * together with the branch's record, so of two writers that started from the same head, one gets a conflict.
 */
import { type KeyRange, prefixRange } from "../store/index.js";
import { isBoolean, isCounter, isNumber, objectOf, optional } from "../util/index.js";
import { isId } from "./ids.js";
import { encodeNumber } from "./keys.js";
import { parseRecord } from "./parse-record.js";

/** A session: its number, its agent, and its counters. */
export interface SessionRecord {
  readonly number: number;
  readonly agent: string | undefined;
  readonly createdAt: number;
  readonly nextSeq: number;
  readonly nextTape: number;
  /** The number of checkpoints; `buildCommit` maintains it. */
  readonly checkpoints: number;
  /** The policy for automatic checkpoints, if one is set. */
  readonly policy: AutoPolicy | undefined;
  /** The earliest expiry of the checkpoints that have a `ttl`; `buildCommit` maintains it. */
  readonly earliestExpiry: number | undefined;
}

/** When checkpoints are saved automatically, and how many of them are kept. */
export interface AutoPolicy {
  /** Milliseconds between two automatic checkpoints. */
  readonly interval: number;
  /** How many checkpoints of the kinds `automatic` and `preOperation` are kept. */
  readonly max: number;
  /** Whether a checkpoint is saved before an operation that cannot be undone. */
  readonly beforeOperations: boolean;
  readonly enabled: boolean;
}

interface StoredSession {
  n: number;
  a?: string;
  t: number;
  q: number;
  p: number;
  c?: number;
  o?: AutoPolicy;
  e?: number;
}

const isAutoPolicy = objectOf({ interval: isNumber, max: isNumber, beforeOperations: isBoolean, enabled: isBoolean });
const isStoredSession = objectOf({
  n: isCounter,
  a: optional(isId),
  t: isNumber,
  q: isCounter,
  p: isCounter,
  c: optional(isCounter),
  o: optional(isAutoPolicy),
  e: optional(isNumber),
});

/** The record of a session without checkpoints. Tape 0 belongs to `main`. */
export function newSessionRecord(number: number, createdAt: number): SessionRecord {
  const counters = { nextSeq: 0, nextTape: 1, checkpoints: 0 };
  return { number, agent: undefined, createdAt, ...counters, policy: undefined, earliestExpiry: undefined };
}

export function encodeSession(record: SessionRecord): string {
  const { number: n, agent: a, createdAt: t, nextSeq: q, nextTape: p, checkpoints: c, policy: o } = record;
  return JSON.stringify({ n, a, t, q, p, c, o, e: record.earliestExpiry });
}

export function decodeSession(value: string): SessionRecord {
  const { n, a, t, q, p, c = 0, o, e } = parseRecord<StoredSession>(value, isStoredSession, "session");
  return { number: n, agent: a, createdAt: t, nextSeq: q, nextTape: p, checkpoints: c, policy: o, earliestExpiry: e };
}

export const sessionKey = (session: string): string => `s\t${session}`;
/** All sessions and branches, including the agents that are stored as sessions. */
export const ALL_SESSIONS: KeyRange = prefixRange("s\t");
/** The id of a session, by its number. */
export const sessionNumberKey = (number: number): string => `n${encodeNumber(number)}`;
export const ALL_SESSION_NUMBERS: KeyRange = prefixRange("n");
/** The id of a session, by its agent. */
export const agentSessionKey = (agent: string, number: number): string => `j\t${agent}\t${encodeNumber(number)}`;
export const sessionsOfAgent = (agent: string): KeyRange => prefixRange(`j\t${agent}\t`);

const AGENT_HISTORY_PREFIX = "\u0001";
/** The id of the session that stores an agent and its checkpoints. */
export const agentHistoryId = (agent: string): string => AGENT_HISTORY_PREFIX + agent;
/** The agent that a session stores; `undefined` for an ordinary session. */
export const agentOfHistoryId = (session: string): string | undefined =>
  session.startsWith(AGENT_HISTORY_PREFIX) ? session.slice(AGENT_HISTORY_PREFIX.length) : undefined;
/** The records of all agents, and no others. */
export const ALL_AGENTS: KeyRange = prefixRange(`s\t${AGENT_HISTORY_PREFIX}`);
