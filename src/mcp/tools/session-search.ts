/** The tool that finds sessions by what their states and labels contain. */
import { z } from "zod";
import { isSavepointError, type Json, type SessionInfo, toJson } from "../../index.js";
import { PAGE_ARGUMENTS } from "../paging.js";
import { projectOf } from "../project.js";
import { SESSION_INFO, toSessionInfo } from "../result-schemas.js";
import type { AgentScope } from "../scope.js";
import { SESSION_FILTER, type SessionFilter, walkSessions } from "./session-list.js";
import { toDate } from "./arguments.js";
import { defineTool } from "./tool.js";

/** How many sessions are compared completely at most, and how large their states may be together. */
const MAX_SCANNED = 1000;
const MAX_STATE_BYTES = 32e6;
/** How many hits of the full-text index are read: it also contains conversations and other projects. */
const MAX_INDEXED = 500;
/** Characters on each side of a match. */
const CONTEXT = 80;

const HIT = SESSION_INFO.omit({ createdAt: true, questions: true, wakeAt: true, reason: true }).extend({
  branch: z.string().optional(),
  /** JSON pointer to the match in the newest state. */
  path: z.string().optional(),
  snippet: z.string(),
});

type Hit = z.output<typeof HIT>;

/** Where a session matches. */
interface Match {
  readonly snippet: string;
  readonly path?: string | undefined;
  readonly branch?: string | undefined;
}

export const sessionSearch = defineTool({
  name: "session_search",
  title: "Search sessions",
  description: `Finds sessions that contain the given text, ignoring case: in the id, label, resume hint or newest state of the ${MAX_SCANNED} newest ones, or in any message. Returns one hit per session, last saved first.`,
  input: z.strictObject({
    text: z.string().min(1).describe("One word or phrase."),
    ...SESSION_FILTER,
    limit: PAGE_ARGUMENTS.limit,
  }),
  output: z.object({ hits: z.array(HIT), more: z.boolean().describe("More hits than `limit`.") }),
  writes: false,
  async run({ text, limit, ...filter }, scope) {
    const hits = new Map<string, Hit>();
    await addScanned(hits, limit, text, filter, scope);
    if (hits.size <= limit) await addIndexed(hits, text, filter, scope);
    const sorted = [...hits.values()].sort((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1));
    return { hits: sorted.slice(0, limit), more: hits.size > limit };
  },
});

/** Adds sessions whose fields or newest states match. */
async function addScanned(
  hits: Map<string, Hit>,
  limit: number,
  text: string,
  filter: SessionFilter,
  scope: AgentScope,
): Promise<void> {
  const wanted = text.toLowerCase();
  let scanned = 0;
  let bytes = MAX_STATE_BYTES;
  for await (const info of walkSessions(scope, filter)) {
    if (hits.size > limit || scanned++ === MAX_SCANNED) return;
    const { id, head } = info;
    let match = matchAny([id, head?.label, head?.description, head?.resumeHint, info.reason], wanted);
    const size = head?.stateBytes ?? 0;
    if (!match && size <= bytes) {
      bytes -= size;
      match = await matchState(scope, id, wanted);
    }
    if (match) hits.set(id, toHit(info, match));
  }
}

/** Adds sessions with messages that the full-text index finds, also on other branches than main. */
async function addIndexed(
  hits: Map<string, Hit>,
  text: string,
  filter: SessionFilter,
  scope: AgentScope,
): Promise<void> {
  const found = await scope.sp.search(text, { ...scope.agentFilter(filter.agent), limit: MAX_INDEXED });
  for (const { source, id, agent, branch, path, snippet } of found) {
    if (source !== "session" || hits.has(id) || !scope.owns(agent)) continue;
    const info = await scope.sp.sessions.load(id);
    if (info && scope.owns(info.agent) && matchesFilter(info, filter, scope)) {
      hits.set(id, toHit(info, { snippet, path, branch }));
    }
  }
}

function matchesFilter(info: SessionInfo, { project, status, since }: SessionFilter, scope: AgentScope): boolean {
  const from = toDate(since)?.getTime() ?? Number.NEGATIVE_INFINITY;
  return (
    (project === "any" || projectOf(info.head) === scope.project) &&
    (status === undefined || info.status === status) &&
    info.updatedAt >= from
  );
}

function toHit(info: SessionInfo, { snippet, path, branch }: Match): Hit {
  const { session, agent, project, status, updatedAt, step, label, resumeHint } = toSessionInfo(info);
  return { session, agent, project, status, updatedAt, step, label, resumeHint, branch, path, snippet };
}

function matchAny(texts: readonly (string | undefined)[], wanted: string): Match | undefined {
  for (const text of texts) {
    const snippet = text === undefined ? undefined : findSnippet(text, wanted);
    if (snippet !== undefined) return { snippet };
  }
  return undefined;
}

async function matchState(scope: AgentScope, id: string, wanted: string): Promise<Match | undefined> {
  try {
    const latest = await scope.sp.session(id).latest();
    // Another agent may have created it again in the meantime.
    if (!latest || !scope.owns(latest.agent)) return undefined;
    return findInJson(toJson(latest.state, { maxBytes: 0 }), wanted);
  } catch (error) {
    // A damaged session is not found. It does not keep others from being found.
    if (isSavepointError(error, "DAMAGED") || isSavepointError(error, "SESSION_DELETED")) return undefined;
    throw error;
  }
}

/** The first string in a value that contains the text, in the order of the value. */
function findInJson(root: Json, wanted: string): Match | undefined {
  const pending: [string, Json][] = [["", root]];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const [path, value] = next;
    if (typeof value === "string") {
      const snippet = findSnippet(value, wanted);
      if (snippet !== undefined) return { snippet, path };
    } else if (typeof value === "object" && value !== null) {
      const entries = Object.entries(value as Record<string, Json>).reverse();
      for (const [key, part] of entries)
        pending.push([`${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`, part]);
    }
  }
  return undefined;
}

/** The text around a match, on one line. */
function findSnippet(text: string, wanted: string): string | undefined {
  const at = text.toLowerCase().indexOf(wanted);
  if (at < 0) return undefined;
  const start = Math.max(0, at - CONTEXT);
  const end = at + wanted.length + CONTEXT;
  const part = text.slice(start, end).replaceAll(/\s+/g, " ").trim();
  return `${start > 0 ? "…" : ""}${part}${end < text.length ? "…" : ""}`;
}
