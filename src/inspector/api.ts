/**
 * The JSON API of the inspector: every route with its request and its response. The page imports this file and nothing else of
 * the server. `docs/inspector.md` documents it for other programs.
 *
 * - All paths are relative to the base path of the inspector, and begin with `/api/`. All bodies are JSON (UTF-8).
 * - Times are milliseconds since 1970. Fields that are `undefined` are omitted. Unknown query parameters are rejected.
 * - Values of states, arguments and results are in the form of `toJson()`: `{"$date": "…"}`, `{"$bytes": 3, "base64": "…"}`,
 *   `{"$map": …}`, and so on; the types call this {@link Json}. Parts that were left out for their size are {@link Omitted}.
 * - Everything in a response is data of users and models, thus hostile: show it as text, never as HTML.
 * - An id in a path is encoded with {@link encodeId}. Branches, checkpoints and questions are query parameters or in bodies.
 * - With a token, each request has the header `authorization: Bearer <token>`; `/api/events` too (use `fetch`, not `EventSource`).
 * - A write (`POST` on a route marked *write*) needs `content-type: application/json`, and `meta.write`.
 *
 * Cursors are opaque. A page with `next` has a next page; pass it as `cursor`. A cursor that is too old gives `409` `CONFLICT`:
 * start again.
 *
 * Errors: status 400 (`INVALID_ARGUMENT`, …), 401, 403 (`READ_ONLY`, `FORBIDDEN`), 404, 405, 409, 413, 415, 500, 503; the body is
 * {@link ApiError}.
 */
import type {
  AnyCheckpointInfo,
  BackupInfo,
  CheckpointInfo,
  CheckpointStatus,
  ConversationInfo,
  EffectKind,
  EffectSummary,
  Hole,
  Json,
  KeepReason,
  KnownBackup,
  LastShutdown,
  NeededBy,
  Question,
  QueuedRun,
  QueueState,
  RestoredConversation,
  RetentionOptions,
  Role,
  RunError,
  SavedAgentInfo,
  SearchHit,
  SkippedCheckpoint,
  Stats,
  Status,
  ToolCallStatus,
  Usage,
  VerifyProblem,
  WorkerInfo,
} from "../index.js";

/** A value as it arrives: fields that are `undefined` are missing, other values are in the form of `toJson()`. */
export type Wire<T> = T extends readonly (infer Element)[]
  ? readonly Wire<Element>[]
  : T extends string | number | boolean | null | undefined
    ? T
    : T extends object
      ? {
          readonly [Key in keyof T as undefined extends T[Key] ? never : Key]: Wire<T[Key]>;
        } & { readonly [Key in keyof T as undefined extends T[Key] ? Key : never]?: Wire<Exclude<T[Key], undefined>> }
      : Json;

/** The form of an id in a path. `.` and `..` would be removed from the path by browsers, so they begin with `~`. */
export function encodeId(id: string): string {
  return encodeURIComponent(id === "." || id === ".." || id.startsWith("~") ? `~${id}` : id);
}

/** The body of every response with a status from 400 on. */
export interface ApiError {
  readonly error: {
    /** A code of `SavepointError`, or `UNAUTHORIZED`, `FORBIDDEN`, `NOT_FOUND`, `METHOD_NOT_ALLOWED`, `TOO_LARGE`, `UNSUPPORTED_MEDIA_TYPE`. */
    readonly code: string;
    /** What failed, and what to do. */
    readonly message: string;
  };
}

/** In place of a part that was left out for its size. `GET …/state?pointer=` returns the part. */
export interface Omitted {
  readonly $omitted: {
    readonly type: "array" | "object" | "string";
    /** Elements, properties or characters. */
    readonly length: number;
    /** The JSON pointer of the part. */
    readonly pointer: string;
    /** The beginning of a string. */
    readonly preview?: string;
  };
}

/** A page of a list. */
export interface Page<Entry> {
  readonly entries: readonly Entry[];
  readonly next?: string;
}

// ---------------------------------------------------------------------------------------------------------------- meta

/** `GET /api/meta` → {@link Meta}. Costs nothing. */
export interface Meta {
  /** The version of Savepoint. */
  readonly version: string;
  /** The store, without a password. */
  readonly url: string;
  /** Whether this inspector accepts writes. If not, hide everything that changes the store. */
  readonly write: boolean;
  /** Differs after each start of the inspector. */
  readonly instance: string;
  /** The clock of the server. */
  readonly now: number;
  /** The routes accept a bearer token; otherwise the server has its own sign-in. */
  readonly token: boolean;
}

// ------------------------------------------------------------------------------------------------------------ sessions

export const SESSION_SORTS = [
  /** Open questions first, then interrupted, failed and running sessions; within each, the newest first. */
  "attention",
  "updated",
  "created",
  "id",
  "agent",
  "status",
  "steps",
  "tokens",
  "cost",
  "checkpoints",
  "size",
] as const;
export type SessionSort = (typeof SESSION_SORTS)[number];

/**
 * `GET /api/sessions` → {@link SessionPage}: any part of the sorted list, so that a list of 100,000 sessions can be scrolled.
 *
 * Served from an index in memory that the inspector builds once in the background (about 20 µs per session) and keeps current.
 * While it is built, `indexed < total`, and the answer has the sessions that are indexed so far, newest first. No request reads
 * more than it returns.
 */
export interface SessionQuery {
  /** @default 0 */
  readonly offset?: number;
  /** At most 1,000. @default 100 */
  readonly limit?: number;
  /** @default "attention" */
  readonly sort?: SessionSort;
  /** @default "desc" except for `id`, `agent` and `status` */
  readonly order?: "asc" | "desc";
  readonly agent?: string;
  /** Several are separated by commas. */
  readonly status?: string;
  /** Part of the id, the agent, the label or the question, ignoring case. For messages there is `/api/search`. */
  readonly query?: string;
  /** Updated at this time or later. */
  readonly since?: number;
  readonly until?: number;
}

export interface SessionPage {
  readonly sessions: readonly SessionRow[];
  /** The position of the first of them. */
  readonly offset: number;
  /** How many sessions match the filters, as far as they are indexed. */
  readonly matches: number;
  /** How many sessions the store has, as far as is known. */
  readonly total: number;
  /** How many of them are in the index; the rest follows. An index holds at most 200,000, the newest. */
  readonly indexed: number;
  readonly isIndexing: boolean;
  /** Rises with every change of the index. */
  readonly version: number;
  /** All sessions by status, and by agent (the 50 largest), without filters. */
  readonly statuses: Readonly<Partial<Record<Status, number>>>;
  readonly agents: readonly { readonly agent: string; readonly sessions: number }[];
  /** Sessions that wait for an answer. */
  readonly asking: number;
}

/** A session in a list. Status, steps, usage and sizes are those of the branch `main`. */
export interface SessionRow {
  readonly id: string;
  readonly agent?: string;
  readonly status: Status;
  readonly reason?: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Completed steps. */
  readonly steps: number;
  readonly tokens?: number;
  readonly cost?: number;
  /** Checkpoints on all branches. */
  readonly checkpoints: number;
  /** The size of the newest state, in bytes. */
  readonly stateBytes: number;
  readonly label?: string;
  /** How many questions are open, and the first one. */
  readonly questions: number;
  readonly question?: string;
  readonly questionKind?: "ask" | "unknown";
  /** When a waiting session is scheduled to resume. */
  readonly wakeAt?: number;
}

/** `GET /api/sessions/:id?branch=` → {@link SessionDetail}. Reads one record per branch; queue and workers as in `/api/queue`. */
export interface SessionDetail {
  readonly session: SessionRow;
  /** The branch that the fields below are about. @default "main" */
  readonly branch: string;
  readonly status: Status;
  readonly reason?: string;
  readonly error?: RunError;
  readonly questions: readonly QuestionView[];
  readonly wakeAt?: number;
  readonly head?: CheckpointView;
  readonly branches: readonly BranchView[];
  /** The owner of the lease, while the branch is running. */
  readonly worker?: WorkerView;
  /** The queue entries of all branches. */
  readonly queue: readonly QueueView[];
  readonly autoPolicy?: { readonly interval: number; readonly max: number; readonly enabled: boolean };
  readonly retention?: RetentionOptions;
}

export interface BranchView {
  readonly name: string;
  readonly createdAt: number;
  /** The seq of the checkpoint that the branch was forked from. */
  readonly forkedFrom?: number;
  /** The seq of the newest checkpoint. */
  readonly head?: number;
  readonly headId?: string;
  readonly status?: CheckpointStatus;
  readonly updatedAt?: number;
}

/** An open question of a run. */
export type QuestionView = Wire<Omit<Question, "data" | "call">> & {
  /** Anything that the agent passed with the question. */
  readonly data?: Json;
  /** For `kind: "unknown"`, the tool call whose outcome is unknown. */
  readonly call?: { readonly id: string; readonly name: string; readonly arguments?: Json };
};

// --------------------------------------------------------------------------------------------------------- checkpoints

/**
 * `GET /api/sessions/:id/history` → {@link History}: checkpoints of all branches by seq, newest first. Reads only the returned
 * rows (and the parents that are not among them).
 */
export interface HistoryQuery {
  /** Only the ancestors of the head of this branch. @default all branches */
  readonly branch?: string;
  /** Only checkpoints with a smaller seq: for the next page, and to jump anywhere. With `branch`, seqs of that branch. */
  readonly before?: number;
  /** Only checkpoints with a larger seq. Not with `branch`. */
  readonly after?: number;
  /** At most 1,000. @default 100 */
  readonly limit?: number;
}

export interface History {
  readonly checkpoints: readonly CheckpointView[];
  /** Pass it as `before` for the next page; missing after the oldest checkpoint. */
  readonly next?: number;
  /** Checkpoints of the session on all branches. */
  readonly total: number;
  /** The seq of the newest checkpoint. Seqs are almost without gaps: rewinds and pruning leave some. */
  readonly newest: number;
}

/** A checkpoint without its state. */
export type CheckpointView = Wire<CheckpointInfo>;

/**
 * `GET /api/sessions/:id/graph?before=&limit=` → {@link Graph}: the tree of checkpoints without their details, newest first, for the lanes of
 * very long sessions. At most 10,000 rows per request (default 5,000), about 15 µs and 40 bytes each.
 */
export interface Graph {
  /** The names that the rows refer to. */
  readonly branches: readonly string[];
  readonly kinds: readonly string[];
  /** `[seq, parent's seq or -1, branch, step, createdAt, kind, flags]`; flags: 1 label, 2 pinned, 4 failed, 8 waiting, 16 completed, 32 halted. */
  readonly rows: readonly (readonly [number, number, number, number, number, number, number])[];
  readonly next?: number;
  readonly total: number;
  readonly newest: number;
}

/**
 * `GET /api/sessions/:id/checkpoint?at=&branch=&maxBytes=` → {@link CheckpointDetail}. `at` is a seq, an id, or missing for the head
 * of the branch. Reads the state: costs O(state). `maxBytes` (default 262,144, at most 8 MB) limits `state`.
 * `GET /api/checkpoint?id=&maxBytes=` → {@link AnyCheckpointDetail} is the same for any checkpoint, also those of agents.
 */
export interface CheckpointDetail {
  readonly checkpoint: CheckpointView;
  /** With {@link Omitted} in place of large parts. */
  readonly state: Json;
  /** Whether `state` has everything. */
  readonly isComplete: boolean;
  /** The parts of the state that cannot be read. */
  readonly holes: readonly Hole[];
  /** Newer checkpoints that are damaged. */
  readonly skipped: readonly SkippedCheckpoint[];
  /** The newest messages; `messages.before` pages to older ones. Missing if the state has none. */
  readonly messages?: MessagePage;
  readonly pendingToolCalls: readonly { readonly id: string; readonly name: string; readonly arguments?: Json }[];
}

/**
 * A checkpoint of a session or of an agent. That of an agent has no `sessionId`, no `messages`, and the state
 * `{ agent, conversations, erased }`.
 */
export type AnyCheckpointDetail = Omit<CheckpointDetail, "checkpoint"> & { readonly checkpoint: AgentCheckpointView };

/** `GET /api/sessions/:id/state?at=&branch=&pointer=&maxBytes=` → {@link StatePart}: a part of a state. Reads the state. */
export interface StatePart {
  readonly pointer: string;
  readonly value: Json;
  readonly isComplete: boolean;
}

/**
 * `GET /api/sessions/:id/messages?at=&branch=&before=&limit=&maxText=` → {@link MessagePage}: messages `before` this index, newest
 * page first, each page oldest first. `limit` is at most 500 (default 100), `maxText` cuts longer texts (default 20,000).
 */
export interface MessagePage {
  /** The pointer of the list in the state, such as `/messages`. */
  readonly pointer: string;
  readonly total: number;
  readonly messages: readonly MessageView[];
  /** Pass it as `before` for older messages. */
  readonly before?: number;
}

/** A message. Messages that only carry results of tools are not listed: the results are with their calls. */
export interface MessageView {
  /** Its index in the list, and its pointer in the state. */
  readonly index: number;
  readonly pointer: string;
  readonly role: Role;
  /** The text, with everything that is not text as a placeholder. */
  readonly text: string;
  /** The characters of the complete text, if it was cut. */
  readonly textLength?: number;
  readonly id?: string;
  readonly timestamp?: number;
  readonly toolCalls: readonly ToolCallView[];
  /** The id of the call whose result this is, if the call is on another page or missing. */
  readonly resultOf?: string;
}

export interface ToolCallView {
  readonly id: string;
  readonly name: string;
  readonly arguments?: Json;
  readonly status?: ToolCallStatus;
  /** Missing while it has none. */
  readonly result?: { readonly text: string; readonly textLength?: number; readonly pointer: string };
}

/**
 * `GET /api/sessions/:id/diff?from=&to=&branch=&limit=` → {@link Diff}. `from` and `to` are seqs or ids; `from` is the parent of `to` by
 * default. Reads only the parts that differ. `POST /api/sessions/:id/preview` with {@link EditRequest} → {@link Diff} compares a checkpoint with an edit that is not saved. It changes nothing. For an edit with `results`, the changes are those of the results, with
 * paths such as `/results/<id of the call>`: what the step makes of them is known only when it is run.
 */
export interface Diff {
  /** Missing if `to` has no parent: then everything is added. */
  readonly from?: CheckpointView;
  readonly to?: CheckpointView;
  /** At most `limit` of them (default 1,000); large values are cut ({@link Omitted}). */
  readonly changes: readonly ChangeView[];
  readonly total: number;
}

export type ChangeView =
  | { readonly op: "add"; readonly path: string; readonly value: Json }
  | { readonly op: "remove"; readonly path: string; readonly before: Json }
  | { readonly op: "replace"; readonly path: string; readonly before: Json; readonly value: Json };

// ------------------------------------------------------------------------------------------------- journal and timeline

/**
 * `GET /api/sessions/:id/journal` → {@link JournalPage}: the effects along the history of a branch, newest first, complete steps.
 * Reads the rows and journal entries of the returned steps.
 */
export interface JournalQuery {
  /** @default "main" */
  readonly branch?: string;
  readonly cursor?: string;
  /** A page ends with the step that reaches it. At most 1,000. @default 100 */
  readonly limit?: number;
  /** Arguments and results are cut to this many characters of their JSON; 0 leaves them out. @default 500 */
  readonly values?: number;
}

export interface JournalPage {
  readonly entries: readonly (EffectView | HoleView)[];
  readonly next?: string;
}

export interface EffectView {
  /** Identifies it in `GET …/effect`. */
  readonly key: string;
  readonly turn: number;
  readonly step?: number;
  readonly index: number;
  readonly kind: EffectKind;
  readonly name: string;
  readonly callId?: string;
  readonly arguments?: Json;
  readonly startedAt: number;
  /** In milliseconds; missing while there is no result. */
  readonly duration?: number;
  readonly attempts: number;
  readonly outcome: "recorded" | "failed" | "running" | "unknown" | "again";
  readonly settledBy?: "answer" | "verify";
  readonly value?: Json;
  readonly error?: { readonly name: string; readonly message: string };
  readonly usage?: Usage;
  /** When a sleep ends. */
  readonly until?: number;
  readonly worker?: string;
  /** The number of the claim that recorded it: rises whenever another process, or the same one again, takes the run. */
  readonly epoch?: number;
  /** The checkpoint that lists it. */
  readonly seq?: number;
  readonly idempotencyKey?: string;
  /** The open question about its unknown outcome, or that it asks. Answer with `POST …/answer`. */
  readonly question?: string;
  readonly holes: readonly Hole[];
}

/** Effects that cannot be read. */
export interface HoleView {
  readonly kind: "hole";
  readonly turn: number;
  readonly reason: string;
  readonly seq?: number;
}

/**
 * `GET /api/sessions/:id/effect?branch=&key=` → {@link EffectView} with complete values (at most 8 MB; larger parts are
 * {@link Omitted}). Reads its step.
 */

/**
 * `GET /api/sessions/:id/timeline?branch=&cursor=&limit=` → {@link Timeline}: the journal as spans, newest steps first, complete
 * steps, without values. Costs as much as the journal.
 */
export interface Timeline {
  /** Newest first. */
  readonly steps: readonly TimelineStep[];
  readonly next?: string;
  /** The clock of the server, for spans that are open. */
  readonly now: number;
}

export interface TimelineStep {
  readonly turn: number;
  readonly step?: number;
  readonly startedAt: number;
  /** Missing while the step is in progress. */
  readonly endedAt?: number;
  /** The checkpoint that ends it. */
  readonly seq?: number;
  readonly usage?: Usage;
  /** Oldest first. Spans that overlap ran in parallel and have different lanes (from 0). */
  readonly spans: readonly TimelineSpan[];
  /** Where another process took over the run, within the step or since the previous one. Oldest first. */
  readonly takeovers: readonly Takeover[];
  /** Reasons of parts that cannot be read. */
  readonly holes: readonly string[];
}

export interface TimelineSpan {
  readonly key: string;
  readonly index: number;
  readonly kind: EffectKind;
  readonly name: string;
  readonly callId?: string;
  readonly startedAt: number;
  readonly endedAt?: number;
  readonly lane: number;
  readonly attempts: number;
  /** How often a later attempt of the step replayed its recorded result without executing it. */
  readonly replays: number;
  readonly outcome: EffectView["outcome"];
  readonly settledBy?: "answer" | "verify";
  readonly error?: string;
  readonly usage?: Usage;
  readonly until?: number;
  readonly worker?: string;
  readonly epoch?: number;
}

export interface Takeover {
  readonly from: number;
  readonly to: number;
  /** The last recorded event under the old claim, and the first one under the new claim. */
  readonly lastAt: number;
  readonly at: number;
  /** `resumed`: the run had waited or slept. `interrupted`: its process was killed, had lost its lease, or had released the run. */
  readonly kind: "resumed" | "interrupted";
  readonly fromWorker?: string;
  readonly toWorker?: string;
}

/** `GET /api/sessions/:id/effects-after?at=&branch=` → {@link EffectsAfter}: tool calls that a run from there may repeat. */
export interface EffectsAfter {
  readonly effects: readonly Wire<EffectSummary>[];
}

// ------------------------------------------------------------------------------------------------- writes to a session

/** An edit of a checkpoint: a state, or changes of its state, or results of the tools in its unfinished step. */
export interface EditRequest {
  /** `session#seq`, an id or a seq. */
  readonly checkpoint: string | number;
  /** The complete state, in the form of `toJson()`. States with class instances need `changes`. */
  readonly state?: Json;
  /** In order, as in JSON Patch. `test`, `move` and `copy` are not supported. */
  readonly changes?: readonly (
    | { readonly op: "add" | "replace"; readonly path: string; readonly value: Json }
    | { readonly op: "remove"; readonly path: string }
  )[];
  /** Results of tool calls, by call id: the step is run again, with these results instead of the recorded ones. */
  readonly results?: Readonly<Record<string, Json>>;
}

/** `POST /api/sessions/:id/fork` *write* → {@link ForkResponse}. */
export interface ForkRequest extends EditRequest {
  /** @default a generated name */
  readonly branch?: string;
  readonly label?: string;
  readonly description?: string;
}
export interface ForkResponse {
  readonly branch: string;
  readonly head?: CheckpointView;
}

/** `POST /api/sessions/:id/rewind` *write* → {@link RewindResponse}. `GET …/effects-after` lists the tool calls after the checkpoint. */
export interface RewindRequest {
  readonly checkpoint: string | number;
  readonly branch?: string;
}
export interface RewindResponse {
  /** The new head. */
  readonly checkpoint: CheckpointView;
  readonly effectsAfter: readonly Wire<EffectSummary>[];
}

/** `POST /api/sessions/:id/label` *write* → {@link Done}. `null` removes the label. */
export interface LabelRequest {
  readonly checkpoint: string | number;
  readonly label: string | null;
}
/** `POST /api/sessions/:id/pin` *write* → {@link Done}. */
export interface PinRequest {
  readonly checkpoint: string | number;
  readonly pinned: boolean;
}

/**
 * `POST /api/sessions/:id/answer` *write* → {@link Done}. To a question of the kind `ask`: `value`. To one of the kind `unknown`:
 * `happened: true` (with what the tool returned), `happened: false` (it is executed again), or `failed` (the tool call fails with
 * this message; the agent sees the error).
 */
export interface AnswerRequest {
  /** @default the first one */
  readonly question?: string;
  readonly branch?: string;
  readonly value?: Json;
  readonly happened?: boolean;
  readonly result?: Json;
  readonly failed?: string;
}

/** `POST /api/sessions/:id/cancel` *write* → {@link Done}; `done: false` if there was nothing to cancel. */
export interface CancelRequest {
  readonly branch?: string;
  readonly reason?: string;
}

/**
 * `POST /api/sessions/:id/resume` *write* → {@link Done}: schedules an interrupted, failed, halted or quarantined run, so that a
 * worker resumes it. Runs nothing itself. `done: false` if the run needs no worker: it runs, waits, has completed or is queued.
 */
export interface ResumeRequest {
  readonly branch?: string;
}

/** `POST /api/sessions/:id/tool-calls` *write* → {@link Done}: results of tool calls in a session without a run; `"drop"` removes the calls. */
export interface ToolCallsRequest {
  readonly branch?: string;
  readonly resolution: "drop" | Readonly<Record<string, Json>>;
}

export interface Done {
  readonly done: boolean;
}

// ------------------------------------------------------------------------------------- questions, workers and the queue

/** `GET /api/questions?offset=&limit=` → {@link QuestionPage}: all sessions with open questions, the longest waiting first. */
export interface QuestionPage {
  readonly entries: readonly {
    readonly session: string;
    readonly branch: string;
    readonly agent?: string;
    /** Since when it waits. */
    readonly since: number;
    readonly questions: readonly QuestionView[];
  }[];
  readonly total: number;
}

/** `GET /api/workers` → {@link WorkerPage}. Reads every queue entry; shared by all clients and cached in proportion to its cost. */
export interface WorkerPage {
  readonly workers: readonly WorkerView[];
  readonly now: number;
}
/** The owner of leases; at most 1,000 of its runs are listed. */
export type WorkerView = Wire<WorkerInfo>;

/**
 * `GET /api/queue?state=&agent=&offset=&limit=` → {@link QueuePage}, in the order in which workers run it. Reads every queue entry
 * and the record of every run; shared and cached like `/api/workers`. At most 100,000 entries are held.
 */
export interface QueuePage {
  readonly entries: readonly QueueView[];
  readonly offset: number;
  readonly matches: number;
  readonly states: Readonly<Partial<Record<QueueState, number>>>;
  readonly now: number;
}
export type QueueView = Omit<Wire<QueuedRun>, "questions"> & { readonly questions: readonly QuestionView[] };

// --------------------------------------------------------------------------------------------- conversations and agents

/** `GET /api/conversations?agent=&tag=&archived=&cursor=&limit=` → `Page<ConversationView>`, the newest first. */
export type ConversationView = Wire<ConversationInfo>;

/** `GET /api/conversations/:id?before=&limit=&maxText=` → {@link ConversationDetail}. Reads only the returned messages. */
export interface ConversationDetail {
  readonly conversation: ConversationView;
  readonly messages: MessagePage;
  readonly holes: readonly { readonly index: number; readonly reason: string }[];
}

/** `GET /api/agents?cursor=&limit=` → `Page<AgentRow>`. */
export type AgentRow = Wire<SavedAgentInfo>;

/** `GET /api/agents/:id` → {@link AgentDetail}. */
export interface AgentDetail {
  readonly agent: AgentRow;
  readonly systemPrompt?: string;
  readonly config: Json;
  readonly state: Json;
  readonly isComplete: boolean;
  readonly activeConversations: readonly string[];
  readonly skipped: readonly SkippedCheckpoint[];
}

/** `GET /api/agents/:id/checkpoints?cursor=&limit=` → `Page<AgentCheckpointView>`: checkpoints of the whole agent, newest first. */
export type AgentCheckpointView = Wire<AnyCheckpointInfo>;

/**
 * `GET /api/restore?id=` → {@link RestorePreview}: what restoring a checkpoint (of an agent or a session) would change.
 * `POST /api/restore` *write* with {@link RestoreRequest} → {@link RestoreResponse}.
 */
export interface RestorePreview {
  readonly agent?: string;
  readonly session?: string;
  /** At most 1,000; large values are cut. */
  readonly changes: readonly ChangeView[];
  readonly changeCount: number;
  readonly restored: readonly RestoredConversation[];
  readonly recreated: readonly string[];
  readonly removed: readonly string[];
  /** Conversations that were erased and cannot be restored. */
  readonly erased: readonly string[];
}
export interface RestoreRequest {
  readonly id: string;
}
export interface RestoreResponse {
  readonly checkpoint: AgentCheckpointView;
  /** Restore it to undo. */
  readonly before: AgentCheckpointView;
}

// -------------------------------------------------------------------------------------------------------------- search

/**
 * `GET /api/search?text=&agent=&role=&limit=` → {@link SearchResponse}: conversations and newest states of sessions, and ids of
 * sessions, the best first. Uses the search index of the store.
 */
export interface SearchResponse {
  readonly hits: readonly SearchHitView[];
  /** Sessions whose id contains the text, at most 10. */
  readonly sessions: readonly SessionRow[];
}
export type SearchHitView = Wire<SearchHit> & {
  /** The title of the conversation. */
  readonly title?: string;
  /** The parts of the snippet that match: `[start, end]` in UTF-16 units. */
  readonly highlights: readonly (readonly [number, number])[];
};

// --------------------------------------------------------------------------------------------------------------- store

/** `GET /api/store` → {@link StoreView}. Cached in proportion to its cost: one record per session and conversation. */
export interface StoreView {
  readonly url: string;
  readonly stats: Stats;
  /** When `stats` was computed. */
  readonly at: number;
  readonly lastShutdown: LastShutdown;
  /** Backups that the store remembers, of all machines, oldest first; `bytes` for those that this machine can read. */
  readonly backups: readonly (KnownBackup & Partial<Pick<BackupInfo, "bytes">>)[];
  readonly policies: readonly { readonly target: RetentionTarget; readonly options: RetentionOptions }[];
  readonly damage: DamageView;
}

/**
 * `GET /api/store/largest?by=&limit=` → {@link LargestSessions}: by `bytes` (measured for the 50 sessions with the most checkpoints
 * and the 50 with the largest states), `state` or `checkpoints` (from the index).
 */
export interface LargestSessions {
  readonly sessions: readonly (SessionRow & { /** Records and items, without blobs. */ readonly bytes?: number })[];
  /** Whether the index was incomplete. */
  readonly isIndexing: boolean;
}

/**
 * `GET /api/store/growth?buckets=` → {@link Growth}: from the index, without reading checkpoints. Sessions are exact. Checkpoints
 * and bytes are estimates: those of a session are spread evenly between its first and its last save.
 */
export interface Growth {
  /** The start of the first bucket, and the width of each. */
  readonly from: number;
  readonly width: number;
  /** Created in each bucket. */
  readonly sessions: readonly number[];
  readonly checkpoints: readonly number[];
  /** Bytes at the end of each bucket, scaled so that the last is the size of the store. */
  readonly bytes: readonly number[];
  readonly isIndexing: boolean;
}

export interface RetentionTarget {
  readonly session?: string;
  readonly agent?: string;
}

/**
 * `POST /api/store/retention-preview` with {@link RetentionPreviewRequest} → {@link RetentionPreview}: what a retention policy would
 * remove. Changes nothing. Reads the rows of the target: O(its checkpoints). One at a time per inspector; other requests get `503` `BUSY`.
 */
export interface RetentionPreviewRequest extends RetentionTarget {
  /** @default the stored policy of the target */
  readonly options?: RetentionOptions;
}
export interface RetentionPreview {
  readonly removed: number;
  readonly kept: number;
  readonly bytes: number;
  readonly items: number;
  /** How many checkpoints are kept for each reason. */
  readonly reasons: Readonly<Partial<Record<KeepReason, number>>>;
  /** At most 1,000 of each, the newest. */
  readonly gone: readonly {
    readonly id: string;
    readonly seq: number;
    readonly session?: string;
    readonly agent?: string;
  }[];
  readonly keeping: readonly {
    readonly id: string;
    readonly seq: number;
    readonly session?: string;
    readonly agent?: string;
    readonly reasons: readonly KeepReason[];
    readonly neededBy?: readonly Wire<NeededBy>[];
  }[];
}

/**
 * `GET /api/store/damage` → {@link DamageView}; `POST /api/store/verify` with {@link VerifyRequest} starts a verification (no write;
 * reads the whole store, in slices) and `POST /api/store/verify` with `{ "stop": true }` stops it.
 */
export interface DamageView {
  /** Damage that reads of this inspector have found, newest first, at most 100. */
  readonly events: readonly {
    readonly at: number;
    readonly session?: string;
    readonly agent?: string;
    readonly conversation?: string;
    readonly seq?: number;
    readonly reason: string;
  }[];
  readonly verification?: {
    readonly state: "running" | "done" | "stopped" | "failed";
    readonly deep: boolean;
    readonly startedAt: number;
    readonly endedAt?: number;
    readonly progress: Readonly<Record<string, number>>;
    readonly ok?: boolean;
    /** At most 1,000. */
    readonly problems: readonly Wire<VerifyProblem>[];
    readonly message?: string;
  };
}
export interface VerifyRequest {
  readonly deep?: boolean;
  readonly stop?: boolean;
}

// -------------------------------------------------------------------------------------------------------------- events

/**
 * `GET /api/events?topics=…` → a stream of server-sent events. Topics are separated by commas; ids in them are encoded with
 * {@link encodeId}:
 *
 * - `sessions`: changes of rows of the list;
 * - `session:<id>`: everything about one session, on all branches;
 * - `queue`: workers and queue;
 * - `store`: counts, damage and the progress of a verification.
 *
 * The poll of a topic is shared by all clients; without clients there is none. Each event has an `id`; its `event` is the name in
 * {@link LiveEvents}, its `data` JSON. To reconnect, pass the last id as the header `last-event-id`: what was missed is sent again, or
 * `reset`, after which everything must be loaded again. A comment is sent every 15 s; a stream that is silent for 45 s is dead.
 */
export interface LiveEvents {
  /** First, on every connection. */
  readonly hello: { readonly instance: string; readonly now: number };
  /** Events were missed: load again what is shown. */
  readonly reset: Readonly<Record<string, never>>;
  /** Rows that are new or have changed, and ids of deleted sessions. With more than 200 changes only `version`: load the list again. */
  readonly sessions: {
    readonly version: number;
    readonly rows: readonly SessionRow[];
    readonly removed: readonly string[];
    readonly total: number;
    readonly asking: number;
    readonly isIndexing: boolean;
  };
  readonly session: {
    readonly id: string;
    /** Missing if the session was deleted. */
    readonly session?: SessionRow;
    readonly questions: readonly QuestionView[];
    /** New checkpoints on any branch, newest first, at most 100: load the history if `newest` is ahead. */
    readonly checkpoints: readonly CheckpointView[];
    readonly newest: number;
    readonly branches: readonly BranchView[];
    /** Effects of the current steps have changed: load the newest page of the journal or timeline of these branches. */
    readonly journals: readonly string[];
    /** Older checkpoints were changed through this inspector, such as by a label or a pin: load these seqs again. */
    readonly changed: readonly number[];
  };
  /** The queue or the workers have changed: load them again. */
  readonly queue: { readonly states: QueuePage["states"]; readonly workers: number };
  readonly store: { readonly damage: DamageView; readonly stats?: Stats };
}
export type LiveEventName = keyof LiveEvents;
