/** Search in messages, titles and ids. */
import type { Role, Savepoint, SearchHit } from "../../index.js";
import type { SearchHitView, SearchResponse, SessionRow } from "../api.js";
import { findHighlights } from "../data/highlights.js";
import type { SessionIndex } from "../data/session-index.js";
import { omitUndefined } from "../data/views.js";
import { toWire } from "../http/responses.js";
import type { Call, Route } from "../http/router.js";
import type { Services } from "../services.js";

const MAX_HITS = 100;
const MAX_SESSIONS = 10;
/** How long a search waits for the index of sessions, in milliseconds. */
const INDEX_WAIT = 200;

const ROLES: readonly Role[] = ["system", "user", "assistant", "tool"];

export function searchRoutes(services: Services): readonly Route[] {
  return [
    {
      method: "GET",
      path: "/api/search",
      query: ["text", "agent", "role", "limit"],
      run: (call) => search(services, call),
    },
  ];
}

async function search({ sp, index }: Services, { query }: Call): Promise<SearchResponse> {
  const text = query.required("text");
  const agent = query.text("agent");
  const options = omitUndefined({ agent, role: query.oneOf("role", ROLES), limit: query.limit(MAX_HITS, 20) });
  const [hits] = await Promise.all([sp.search(text, options), index.update(INDEX_WAIT)]);
  return {
    hits: await Promise.all(hits.map((hit) => toHitView(sp, hit, text))),
    sessions: findSessions(index, text, agent),
  };
}

async function toHitView(sp: Savepoint, hit: SearchHit, text: string): Promise<SearchHitView> {
  const isConversation = hit.source === "conversation";
  const conversation = isConversation ? await sp.conversations.load(hit.id, { limit: 1, partial: true }) : undefined;
  return {
    ...(toWire(hit) as unknown as Omit<SearchHitView, "highlights">),
    ...omitUndefined({ title: conversation?.title }),
    highlights: findHighlights(hit.snippet, text),
  };
}

function findSessions(index: SessionIndex, text: string, agent: string | undefined): SessionRow[] {
  const wanted = text.toLowerCase();
  const found: SessionRow[] = [];
  for (const row of index.rows()) {
    if ((agent === undefined || row.agent === agent) && row.id.toLowerCase().includes(wanted)) found.push(row);
    if (found.length >= MAX_SESSIONS) break;
  }
  return found;
}
