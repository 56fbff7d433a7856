/** The ids under which transcripts are stored, and the keys of the SDK that they are made of. */
import { SavepointError } from "../../index.js";
import type { SessionKey } from "./types.js";

const PREFIX = "claude/";
const AGENT_PREFIX = "claude:";
/** What cannot be in an id, and what separates its parts. */
const ESCAPED = /[%/\p{Cc}]/gu;

/** Validates a key of the SDK. */
export function parseKey(key: SessionKey): SessionKey {
  const { projectKey, sessionId, subpath }: Readonly<Record<string, unknown>> = { ...key };
  requireName(projectKey, "projectKey");
  requireName(sessionId, "sessionId");
  if (subpath === undefined) return { projectKey, sessionId };
  requireName(subpath, "subpath");
  return { projectKey, sessionId, subpath };
}

/** Validates a part of a key. */
export function requireName(value: unknown, name: string): asserts value is string {
  if (typeof value === "string" && value !== "") return;
  const given = value === "" ? "an empty string" : typeof value;
  throw invalidArgument(`\`${name}\` of a session key must be a non-empty string, got ${given}.`);
}

/** The id of the session that stores a transcript. */
export function sessionIdOf({ projectKey, sessionId }: SessionKey): string {
  return `${PREFIX}${escape(projectKey)}/${escape(sessionId)}`;
}

/** The key whose transcript a session stores; `undefined` for the id of another session. */
export function keyOf(id: string): SessionKey | undefined {
  if (!id.startsWith(PREFIX)) return undefined;
  const [project, session, ...rest] = id.slice(PREFIX.length).split("/");
  if (!project || !session || rest.length > 0) return undefined;
  try {
    const key = { projectKey: decodeURIComponent(project), sessionId: decodeURIComponent(session) };
    return sessionIdOf(key) === id ? key : undefined;
  } catch {
    // Another program has made this id.
    return undefined;
  }
}

/** The agent of a project's sessions, so that the sessions of one project are found without reading those of others. */
export function agentOf(projectKey: string): string {
  return AGENT_PREFIX + escape(projectKey);
}

/** The JSON pointer to a transcript in the state of its session. */
export function pathOf({ subpath }: SessionKey): string {
  return subpath === undefined ? "/messages" : `/subagents/${subpath.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

export function invalidArgument(message: string, cause?: unknown): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", message, cause === undefined ? {} : { cause });
}

function escape(name: string): string {
  return name.replaceAll(ESCAPED, (character) => encodeURIComponent(character));
}
