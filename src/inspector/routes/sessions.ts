/** Sessions, and the checkpoints of a session without their states. */
import type { CheckpointInfo, Status } from "../../index.js";
import {
  type Graph,
  type History,
  SESSION_SORTS,
  type SessionDetail,
  type SessionPage,
  type SessionQuery,
} from "../api.js";
import { sessionNotFound } from "../data/state-cache.js";
import { omitUndefined, toBranchView, toCheckpointView, toQuestionView, toSessionRow } from "../data/views.js";
import { badRequest } from "../http/errors.js";
import type { Call, Route } from "../http/router.js";
import { toWire } from "../http/responses.js";
import type { Services } from "../services.js";

/** How long a request waits for the index, in milliseconds: then it returns what is there. */
const INDEX_WAIT = 400;
/** How long the view of a session waits for the queue, which may be long, in milliseconds. */
const QUEUE_WAIT = 300;
const MAX_PAGE = 1000;
const MAX_GRAPH = 10_000;

const STATUSES: readonly Status[] = [
  "open",
  "queued",
  "running",
  "waiting",
  "completed",
  "failed",
  "halted",
  "interrupted",
];

export function sessionRoutes(services: Services): readonly Route[] {
  return [
    {
      method: "GET",
      path: "/api/sessions",
      query: ["offset", "limit", "sort", "order", "agent", "status", "query", "since", "until"],
      run: (call) => listSessions(services, call),
    },
    { method: "GET", path: "/api/sessions/:id", query: ["branch"], run: (call) => describeSession(services, call) },
    {
      method: "GET",
      path: "/api/sessions/:id/history",
      query: ["branch", "before", "after", "limit"],
      run: (call) => listHistory(services, call),
    },
    {
      method: "GET",
      path: "/api/sessions/:id/graph",
      query: ["before", "limit"],
      run: (call) => readGraph(services, call),
    },
  ];
}

async function listSessions({ index, lists }: Services, { query }: Call): Promise<SessionPage> {
  const status = query.text("status");
  const unknown = status?.split(",").find((each) => !(STATUSES as readonly string[]).includes(each));
  if (unknown !== undefined)
    throw badRequest(`There is no status ${JSON.stringify(unknown)}. The statuses are: ${STATUSES.join(", ")}.`);
  const selection: SessionQuery = omitUndefined({
    offset: query.count("offset", Number.MAX_SAFE_INTEGER),
    limit: query.limit(MAX_PAGE, 100),
    sort: query.oneOf("sort", SESSION_SORTS),
    order: query.oneOf("order", ["asc", "desc"]),
    agent: query.text("agent"),
    status,
    query: query.text("query"),
    since: query.count("since", Number.MAX_SAFE_INTEGER),
    until: query.count("until", Number.MAX_SAFE_INTEGER),
  });
  await index.update(INDEX_WAIT);
  return lists.page(selection);
}

async function describeSession(services: Services, { params, query }: Call): Promise<SessionDetail> {
  const { sp } = services;
  const { id = "" } = params;
  const branch = query.text("branch") ?? "main";
  const main = await sp.sessions.load(id);
  if (!main) throw sessionNotFound(id);
  const info = branch === "main" ? main : await sp.sessions.load(id, { branch });
  if (!info) throw badRequest(`Session ${JSON.stringify(id)} has no branch ${JSON.stringify(branch)}.`);
  const branches = await sp.session(id).branches().all();
  const { status, reason, error, questions, wakeAt, head } = info;
  const { work } = services;
  const [queue, workers] = await Promise.all([work.queue.within(QUEUE_WAIT), work.workers.within(QUEUE_WAIT)]);
  const isHere = (run: { readonly sessionId: string; readonly branch: string }): boolean =>
    run.sessionId === id && run.branch === branch;
  return omitUndefined({
    session: toSessionRow(main),
    branch,
    status,
    reason,
    error: error && (toWire(error) as unknown as typeof error),
    questions: questions.map(toQuestionView),
    wakeAt,
    head: head && toCheckpointView(head),
    branches: branches.map(toBranchView),
    worker: workers?.find(({ runs }) => runs.some(isHere)),
    queue: queue?.entries.filter(({ sessionId }) => sessionId === id) ?? [],
    autoPolicy: await services.sp.autoCheckpoints.load({ session: id }),
    retention: await services.sp.retention.load({ session: id }),
  });
}

async function listHistory({ sp }: Services, { params, query }: Call): Promise<History> {
  const { id = "" } = params;
  const limit = query.limit(MAX_PAGE, 100);
  const [before, after] = [
    query.count("before", Number.MAX_SAFE_INTEGER),
    query.count("after", Number.MAX_SAFE_INTEGER),
  ];
  const branch = query.text("branch");
  if (branch !== undefined && after !== undefined) throw badRequest("`after` cannot be combined with `branch`.");
  const info = await sp.sessions.load(id);
  if (!info) throw sessionNotFound(id);
  const session = sp.session(id, branch === undefined ? {} : { branch });
  const [newest] = await session.history({ allBranches: true, limit: 1 }).all();
  let page: CheckpointInfo[];
  if (branch === undefined) {
    page = await session.history({ allBranches: true, limit: limit + 1, ...omitUndefined({ before, after }) }).all();
  } else {
    // The page begins at the ancestor of the head with this seq, which the page before has returned as `next`.
    const from = before === undefined ? {} : { from: { seq: before } };
    page = await session.history({ limit: limit + 1, ...from }).all();
  }
  const checkpoints = page.slice(0, limit);
  const isLast = page.length <= limit;
  const last = branch === undefined ? checkpoints.at(-1) : page.at(-1);
  return omitUndefined({
    checkpoints: checkpoints.map(toCheckpointView),
    next: isLast ? undefined : last?.seq,
    total: info.checkpoints,
    newest: newest?.seq ?? 0,
  });
}

/** The flags of a checkpoint in a graph; `api.ts` lists them. */
function flagsOf({ label, pinned, status }: CheckpointInfo): number {
  const ofStatus = { failed: 4, waiting: 8, completed: 16, halted: 32 }[status as string] ?? 0;
  return (label === undefined ? 0 : 1) + (pinned ? 2 : 0) + ofStatus;
}

async function readGraph({ sp }: Services, { params, query }: Call): Promise<Graph> {
  const { id = "" } = params;
  const limit = query.limit(MAX_GRAPH, 5000);
  const before = query.count("before", Number.MAX_SAFE_INTEGER);
  const info = await sp.sessions.load(id);
  if (!info) throw sessionNotFound(id);
  const [branches, kinds] = [new Map<string, number>(), new Map<string, number>()];
  const numberOf = (names: Map<string, number>, name: string): number => {
    const known = names.get(name);
    if (known !== undefined) return known;
    names.set(name, names.size);
    return names.size - 1;
  };
  const session = sp.session(id);
  const rows: Graph["rows"][number][] = [];
  for await (const each of session.history({ allBranches: true, limit, ...omitUndefined({ before }) })) {
    const { seq, parentSeq = -1, branch, step, createdAt, kind } = each;
    rows.push([seq, parentSeq, numberOf(branches, branch), step, createdAt, numberOf(kinds, kind), flagsOf(each)]);
  }
  const [newest] =
    before === undefined ? rows : [(await session.history({ allBranches: true, limit: 1 }).all())[0]?.seq];
  return omitUndefined({
    branches: [...branches.keys()],
    kinds: [...kinds.keys()],
    rows,
    next: rows.length === limit ? rows.at(-1)?.[0] : undefined,
    total: info.checkpoints,
    newest: (typeof newest === "number" ? newest : newest?.[0]) ?? 0,
  });
}
