/** Sorting and filtering the sessions of the index. The sorted lists are kept until the index changes. */
import type { Status } from "../../index.js";
import { SESSION_SORTS, type SessionPage, type SessionQuery, type SessionRow, type SessionSort } from "../api.js";
import type { SessionIndex } from "./session-index.js";

/** Sorted lists that are kept. */
const MAX_LISTS = 8;
/** While the index changes all the time, a list is sorted again at most this often, in milliseconds. */
const MAX_AGE = 500;
/** The most agents that are counted in a page. */
const MAX_AGENTS = 50;

interface SortedList {
  readonly rows: readonly SessionRow[];
  readonly version: number;
  readonly sortedAt: number;
}

interface Summary {
  readonly version: number;
  readonly statuses: SessionPage["statuses"];
  readonly agents: SessionPage["agents"];
  readonly asking: number;
}

export class SessionLists {
  readonly #index: SessionIndex;
  readonly #lists = new Map<string, SortedList>();
  #summary: Summary | undefined;

  constructor(index: SessionIndex) {
    this.#index = index;
  }

  /** A part of the sorted list of the sessions that match. */
  page(query: SessionQuery): SessionPage {
    const { offset = 0, limit = 100, ...selection } = query;
    const rows = this.#sorted(selection);
    const { statuses, agents, asking } = this.#summarize();
    const { size, isIndexing, version } = this.#index;
    return {
      sessions: rows.slice(offset, offset + limit),
      offset,
      matches: rows.length,
      total: size,
      indexed: size,
      isIndexing,
      version,
      statuses,
      agents,
      asking,
    };
  }

  /** How many sessions wait for an answer. */
  get asking(): number {
    return this.#summarize().asking;
  }

  #sorted(selection: Omit<SessionQuery, "offset" | "limit">): readonly SessionRow[] {
    const key = JSON.stringify(selection);
    const { version } = this.#index;
    const now = performance.now();
    const kept = this.#lists.get(key);
    if (kept && (kept.version === version || (now - kept.sortedAt < MAX_AGE && kept.rows.length > 1000)))
      return kept.rows;
    const rows = [...this.#index.rows()].filter(toFilter(selection)).sort(toOrder(selection));
    this.#lists.delete(key);
    this.#lists.set(key, { rows, version, sortedAt: now });
    for (const oldest of this.#lists.keys()) {
      if (this.#lists.size <= MAX_LISTS) break;
      this.#lists.delete(oldest);
    }
    return rows;
  }

  #summarize(): Summary {
    const { version } = this.#index;
    if (this.#summary?.version === version) return this.#summary;
    const statuses: Partial<Record<Status, number>> = {};
    const byAgent = new Map<string, number>();
    let asking = 0;
    for (const { status, agent, questions } of this.#index.rows()) {
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (agent !== undefined) byAgent.set(agent, (byAgent.get(agent) ?? 0) + 1);
      if (questions > 0) asking++;
    }
    const agents = [...byAgent]
      .sort(([, a], [, b]) => b - a)
      .slice(0, MAX_AGENTS)
      .map(([agent, sessions]) => ({ agent, sessions }));
    this.#summary = { version, statuses, agents, asking };
    return this.#summary;
  }
}

function toFilter({ agent, status, query, since, until }: SessionQuery): (row: SessionRow) => boolean {
  const statuses = status === undefined ? undefined : new Set(status.split(","));
  const words = query?.toLowerCase();
  return (row) =>
    (agent === undefined || row.agent === agent) &&
    (statuses === undefined || statuses.has(row.status)) &&
    (since === undefined || row.updatedAt >= since) &&
    (until === undefined || row.updatedAt <= until) &&
    (words === undefined ||
      [row.id, row.agent, row.label, row.question].some((text) => text?.toLowerCase().includes(words)));
}

type Order = (a: SessionRow, b: SessionRow) => number;

/** From the most urgent to the least urgent. */
function urgencyOf({ questions, status }: SessionRow): number {
  if (questions > 0) return 5;
  return { interrupted: 4, failed: 3, running: 2, queued: 1, waiting: 1 }[status as string] ?? 0;
}

const byNumber =
  (read: (row: SessionRow) => number | undefined): Order =>
  (a, b) =>
    (read(a) ?? -1) - (read(b) ?? -1);
const byText =
  (read: (row: SessionRow) => string | undefined): Order =>
  (a, b) => {
    const [left, right] = [read(a) ?? "", read(b) ?? ""];
    return left < right ? -1 : left > right ? 1 : 0;
  };

const ORDERS: Readonly<Record<SessionSort, Order>> = {
  attention: byNumber(urgencyOf),
  updated: byNumber(({ updatedAt }) => updatedAt),
  created: byNumber(({ createdAt }) => createdAt),
  id: byText(({ id }) => id),
  agent: byText(({ agent }) => agent),
  status: byText(({ status }) => status),
  steps: byNumber(({ steps }) => steps),
  tokens: byNumber(({ tokens }) => tokens),
  cost: byNumber(({ cost }) => cost),
  checkpoints: byNumber(({ checkpoints }) => checkpoints),
  size: byNumber(({ stateBytes }) => stateBytes),
};

const ASCENDING: ReadonlySet<SessionSort> = new Set(["id", "agent", "status"] as const);

function toOrder({ sort = "attention", order }: SessionQuery): Order {
  const direction = (order ?? (ASCENDING.has(sort) ? "asc" : "desc")) === "asc" ? 1 : -1;
  const compare = ORDERS[sort];
  // Equal ones are ordered by their last change, then by their id, so that pages never overlap.
  return (a, b) => direction * compare(a, b) || b.updatedAt - a.updatedAt || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

export const SORTS: readonly SessionSort[] = SESSION_SORTS;
