interface Agent<Input = never, State = unknown, Output = unknown> {
  readonly name: string;
  readonly definition: AgentSpec;
  readonly types?: {
    readonly input: (input: Input) => void;
    readonly state: State;
    readonly output: Output;
  };
}

interface AgentCheckpoint extends AgentCheckpointInfo {
  readonly state: SavedAgent<unknown>;
  readonly conversations: readonly ConversationInfo[];
}

interface AgentCheckpointInfo extends Omit<CheckpointInfo, "sessionId" | "agent"> {
  readonly sessionId: undefined;
  readonly agent: string;
}

interface AgentDefinition<Input, State, Result> {
  readonly name: string;
  readonly initial: (input: Input) => State | Promise<State>;
  readonly step: (run: Run<State>) => Promise<Result> | Result;
  readonly receive?: (state: State, input: Input) => State | void | Promise<State | void>;
  readonly strategy?: Strategy;
  readonly limits?: Limits;
  readonly migrations?: readonly ((state: never) => unknown)[];
  readonly retry?: RetryOptions;
  readonly loop?: LoopOptions | false;
}

interface AgentFields<State = unknown> {
  readonly name: string;
  readonly type?: string | undefined;
  readonly systemPrompt?: string | undefined;
  readonly capabilities?: readonly string[];
  readonly config?: object;
  readonly state?: State;
  readonly metadata?: object;
}

interface AgentMigrations {
  readonly agent?: readonly Migration[];
  readonly session?: readonly Migration[];
}

interface AgentToSave<State = unknown>
  extends
    AgentFields<State>,
    Partial<Pick<SavedAgent, "version" | "createdAt" | "modifiedAt" | "activeConversations" | "skipped">> {
  readonly id: string;
}

class Agents {
  #private;
  constructor(host: AgentHost);
  save(agent: AgentToSave, options?: SaveAgentOptions): Promise<SavedAgentInfo>;
  update<State = Record<string, unknown>>(
    id: string,
    change: Partial<AgentFields<State>> | ((agent: SavedAgent<State>) => Partial<AgentFields<State>>),
    options?: SaveAgentOptions,
  ): Promise<SavedAgentInfo>;
  load<State = Record<string, unknown>>(id: string): Promise<SavedAgent<State> | undefined>;
  list(options?: { readonly limit?: number }): Listing<SavedAgentInfo>;
  delete(id: string): Promise<boolean>;
}

type Annotations = ReadonlyMap<number, ReadonlyMap<string, unknown>>;

type AnyCheckpointInfo = CheckpointInfo | AgentCheckpointInfo;

type AnyStoredClass = Omit<StoredClass, "encode" | "decode"> & {
  encode(instance: never): unknown;
  decode(stored: never): unknown;
};

interface AskOptions {
  readonly text: string;
  readonly data?: unknown;
}

interface Attachment {
  readonly id?: string;
  readonly type: AttachmentType;
  readonly name: string;
  readonly mimeType?: string;
  readonly content?: Uint8Array;
  readonly url?: string;
  readonly size?: number;
}

type AttachmentType = "image" | "audio" | "video" | "file" | "code";

interface AutoCheckpointOptions {
  readonly interval?: Duration;
  readonly max?: number;
  readonly beforeOperations?: boolean;
  readonly enabled?: boolean;
}

class AutoCheckpoints {
  #private;
  constructor(host: AutoCheckpointHost);
  set(target: PolicyTarget, options?: AutoCheckpointOptions): Promise<AutoPolicy>;
  load(target: PolicyTarget): Promise<AutoPolicy | undefined>;
  remove(target: PolicyTarget): Promise<boolean>;
  start(target: AutoTarget): Promise<void>;
  stop(
    target?:
      | PolicyTarget
      | {
          readonly session: Session<never> | Session;
        },
  ): Promise<void>;
  beforeOperation(agent: string, operation: string): Promise<void>;
}

interface AutoPolicy {
  readonly interval: number;
  readonly max: number;
  readonly beforeOperations: boolean;
  readonly enabled: boolean;
}

type AutoTarget =
  | {
      readonly agent: string;
    }
  | {
      readonly session: Session<never> | Session;
      readonly state: () => unknown;
    };

type BackgroundFailureEvent = BackgroundFailure;

interface BackupInfo {
  readonly path: string;
  readonly bytes: number;
  readonly createdAt: number;
}

interface BackupOptions {
  readonly to: string;
  readonly keep?: number;
  readonly onProgress?: (progress: BundleProgress) => void;
}

interface BackupPolicy extends BackupOptions {
  readonly every: Duration;
}

interface BackupResult extends BundleProgress {
  readonly path: string;
  readonly createdAt: number;
  readonly holes: readonly BundleHole[];
  readonly removed: readonly string[];
}

interface BranchInfo {
  readonly name: string;
  readonly createdAt: number;
  readonly head: CheckpointInfo | undefined;
}

class Bundle implements AsyncIterable<Uint8Array> {
  #private;
  constructor(make: () => BundleStream);
  [Symbol.asyncIterator](): AsyncIterator<Uint8Array>;
  bytes(): Promise<Uint8Array>;
  save(path: string): Promise<BundleSummary>;
  pipe(write: (chunk: Uint8Array) => Promise<void> | void): Promise<BundleSummary>;
}

interface BundleHole {
  readonly place: string;
  readonly reason: string;
}

type BundleKind = "checkpoint" | "session" | "agent" | "all";

interface BundleProgress {
  readonly sections: number;
  readonly checkpoints: number;
  readonly items: number;
  readonly bytes: number;
}

type BundleSource = Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array> | string;

interface BundleSummary extends BundleProgress {
  readonly id: string;
  readonly kind: BundleKind;
  readonly createdAt: number;
  readonly holes: readonly BundleHole[];
}

type Change =
  | {
      readonly op: "add";
      readonly path: string;
      readonly value: unknown;
    }
  | {
      readonly op: "remove";
      readonly path: string;
      readonly before: unknown;
    }
  | {
      readonly op: "replace";
      readonly path: string;
      readonly before: unknown;
      readonly value: unknown;
    };

interface Checkpoint<State = unknown> extends CheckpointInfo {
  readonly state: State;
  readonly pendingToolCalls: readonly ToolCall[];
  readonly holes: readonly Hole[];
  readonly skipped: readonly SkippedCheckpoint[];
}

type CheckpointEvent = "toolCallComplete" | "llmResponse" | "iteration";

interface CheckpointInfo {
  readonly id: string;
  readonly sessionId: string;
  readonly agent: string | undefined;
  readonly branch: string;
  readonly seq: number;
  readonly step: number;
  readonly parentId: string | undefined;
  readonly createdAt: number;
  readonly kind: CheckpointKind;
  readonly status: CheckpointStatus;
  readonly reason: string | undefined;
  readonly label: string | undefined;
  readonly description: string | undefined;
  readonly trigger: string | undefined;
  readonly resumeHint: string | undefined;
  readonly tasksCompleted: number;
  readonly usage: Usage | undefined;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly pinned: boolean;
  readonly expiresAt: number | undefined;
  readonly version: number | undefined;
  readonly stateBytes: number;
  readonly storedBytes: number;
}

type CheckpointKind = "automatic" | "manual" | "preOperation" | "recovery";

interface CheckpointListOptions extends CheckpointFilter {
  readonly limit?: number;
  readonly kind?: CheckpointKind;
}

type CheckpointRef =
  | string
  | {
      readonly step: number;
    }
  | {
      readonly label: string;
    }
  | {
      readonly seq: number;
    };

type CheckpointStatus = "queued" | "running" | "waiting" | "completed" | "failed" | "halted";

class Checkpoints {
  #private;
  constructor(host: CheckpointHost);
  create(options: CreateCheckpointOptions): Promise<AgentCheckpointInfo>;
  load(id: string): Promise<Checkpoint | AgentCheckpoint | undefined>;
  find(name: string): Promise<AnyCheckpointInfo[]>;
  latest(filter?: CheckpointListOptions): Promise<Checkpoint | AgentCheckpoint | undefined>;
  list(options?: CheckpointListOptions): Listing<AnyCheckpointInfo>;
  restore(
    id: string,
    options: {
      readonly dryRun: true;
    },
  ): Promise<RestorePlan>;
  restore(
    id: string,
    options?: {
      readonly dryRun?: false;
    },
  ): Promise<RestoreReport>;
  delete(id: string): Promise<boolean>;
}

interface CollectOptions {
  readonly onProgress?: (progress: { readonly sessions: number }) => void;
}

interface CollectReport {
  readonly sessions: number;
  readonly items: number;
  readonly blobs: number;
  readonly bytes: number;
}

interface CompletedRun<State, Output> extends Common<State>, Omit<Absent, "output"> {
  readonly status: "completed";
  readonly output: Output;
}

class Completion<out Output> {
  readonly status: EndStatus;
  readonly output: Output | undefined;
  readonly reason: string | undefined;
  constructor(status: EndStatus, output: Output | undefined, reason: string | undefined);
}

interface Conversation<M = Message> extends ConversationInfo {
  readonly messages: M[];
  readonly entries: readonly ConversationEntry<M>[];
  readonly first: number;
  readonly holes: readonly {
    readonly index: number;
    readonly reason: string;
  }[];
}

type ConversationChange = Pick<ConversationOptions, "title" | "tags" | "archived" | "metadata">;

interface ConversationEntry<M = Message> {
  readonly id: string;
  readonly timestamp: number;
  readonly role: Role | undefined;
  readonly text: string;
  readonly message: M;
}

interface ConversationHit {
  readonly conversationId: string;
  readonly agent: string | undefined;
  readonly title: string | undefined;
  readonly messageId: string | undefined;
  readonly role: Role | undefined;
  readonly timestamp: number;
  readonly snippet: string;
}

interface ConversationInfo {
  readonly id: string;
  readonly agent: string | undefined;
  readonly title: string | undefined;
  readonly tags: readonly string[];
  readonly archived: boolean;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly createdAt: number;
  readonly lastMessageAt: number;
  readonly messageCount: number;
}

interface ConversationListOptions {
  readonly agent?: string;
  readonly tag?: string;
  readonly archived?: boolean;
  readonly since?: number | Date;
  readonly limit?: number;
}

interface ConversationOptions<M = Message> {
  readonly id?: string;
  readonly agent?: string | undefined;
  readonly title?: string | undefined;
  readonly tags?: readonly string[];
  readonly archived?: boolean;
  readonly metadata?: object;
  readonly messages?: readonly M[];
}

class Conversations {
  #private;
  constructor(host: ConversationHost);
  create(options?: ConversationOptions<unknown>): Promise<ConversationInfo>;
  save(
    conversation: WholeConversation,
    options?: {
      readonly expectedMessages?: number;
    },
  ): Promise<ConversationInfo>;
  append<M = Message>(id: string, messages: readonly M[]): Promise<ConversationEntry<M>[]>;
  load<M = Message>(id: string, options?: LoadConversationOptions): Promise<Conversation<M> | undefined>;
  list(options?: ConversationListOptions): Listing<ConversationInfo>;
  rename(id: string, title: string | undefined): Promise<ConversationInfo>;
  tag(id: string, tags: readonly string[]): Promise<ConversationInfo>;
  archive(id: string, archived?: boolean): Promise<ConversationInfo>;
  update(id: string, change: ConversationChange): Promise<ConversationInfo>;
  delete(id: string): Promise<boolean>;
  search(text: string, options?: SearchOptions): Promise<ConversationHit[]>;
}

interface CrashedProcess {
  readonly host: string;
  readonly pid: number;
  readonly since: number;
}

interface CreateCheckpointOptions {
  readonly agent: string;
  readonly label?: string;
  readonly description?: string;
  readonly kind?: CheckpointKind;
  readonly metadata?: object;
  readonly pinned?: boolean;
  readonly trigger?: string;
  readonly ttl?: Duration;
}

interface DamageEvent {
  readonly sessionId: string | undefined;
  readonly agent?: string;
  readonly conversationId?: string;
  readonly checkpointId: string | undefined;
  readonly seq: number | undefined;
  readonly reason: string;
}

type Durability = "power" | "process";

type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

interface EffectContext {
  readonly idempotencyKey: string;
  readonly signal: AbortSignal;
  readonly attempt: number;
}

type EffectKind = "llm" | "tool" | "effect" | "now" | "random" | "uuid" | "sleep" | "ask";

interface EffectOptions<Result = unknown> {
  readonly onUnknown?: UnknownPolicy;
  readonly verify?: (context: EffectContext) => Verdict<Result> | Promise<Verdict<Result>>;
  readonly timeout?: Duration;
  readonly retry?: RetryOptions;
}

interface EndedRun<State> extends Common<State>, Omit<Absent, "reason"> {
  readonly status: "failed" | "halted";
  readonly reason: string;
}

interface EnqueueOptions<Input = unknown> {
  readonly session: string;
  readonly input: Input;
  readonly runAt?: Date | Duration;
  readonly priority?: number;
}

type EventName = keyof SavepointEvents;

interface ExportOptions {
  readonly onProgress?: (progress: BundleProgress) => void;
}

type ExportTarget =
  | string
  | {
      readonly checkpoint: string;
    }
  | {
      readonly session: string;
    }
  | {
      readonly agent: string;
    }
  | {
      readonly [name: string]: never;
    };

interface ForkOptions<State = unknown> extends Omit<SaveOptions, "parent" | "move"> {
  readonly branch?: string;
  readonly state?: State;
  readonly results?: Readonly<Record<string, unknown>>;
}

interface HistoryOptions {
  readonly limit?: number;
  readonly order?: "newest" | "oldest";
  readonly allBranches?: boolean;
  readonly from?: CheckpointRef;
}

interface Hole {
  readonly path: string;
  readonly reason: string;
}

interface ImportOptions {
  readonly as?: string;
  readonly existing?: "fail" | "skip";
  readonly onProgress?: (progress: BundleProgress) => void;
}

interface ImportResult extends BundleProgress {
  readonly kind: BundleKind;
  readonly sessions: number;
  readonly conversations: number;
  readonly skipped: readonly string[];
  readonly holes: readonly BundleHole[];
}

interface IndexingEvent {
  readonly messages: number;
  readonly done: boolean;
}

interface InterruptedRun {
  readonly sessionId: string;
  readonly branch: string;
}

interface JournalEntry {
  readonly index: number;
  readonly kind: EffectKind;
  readonly name: string;
  readonly callId: string | undefined;
  readonly arguments: unknown;
  readonly startedAt: number;
  readonly outcome: "recorded" | "failed" | "running" | "unknown" | "again";
  readonly value: unknown;
  readonly error:
    | {
        readonly name: string;
        readonly message: string;
      }
    | undefined;
  readonly usage: Usage | undefined;
  readonly until: number | undefined;
}

type Json =
  | null
  | boolean
  | number
  | string
  | Json[]
  | {
      [key: string]: Json;
    };

type KeepReason =
  | "head"
  | "pinned"
  | "needed"
  | "labelled"
  | "kind"
  | "last"
  | "hourly"
  | "daily"
  | "weekly"
  | "within"
  | "unexpired";

interface KeptCheckpoint extends PrunedCheckpoint {
  readonly reasons: readonly KeepReason[];
  readonly neededBy?: readonly NeededBy[];
}

interface LastShutdown {
  readonly clean: boolean;
  readonly processes: readonly CrashedProcess[];
  readonly interrupted: readonly InterruptedRun[];
}

interface Limits {
  readonly steps?: number;
  readonly tokens?: number;
  readonly cost?: number;
  readonly time?: Duration;
}

type Listener<Name extends EventName> = (event: SavepointEvents[Name]) => void;

type Listeners = {
  readonly [Name in EventName]?: Listener<Name>;
};

interface Listing<T> extends AsyncIterable<T> {
  all(): Promise<T[]>;
}

interface LlmContext extends EffectContext {
  emit(delta: unknown): void;
}

interface LlmOptions<Result = unknown> extends EffectOptions<Result> {
  readonly name?: string;
  readonly input?: unknown;
  readonly usage?: (reply: Result) => Usage | undefined;
}

interface LoadConversationOptions {
  readonly limit?: number;
  readonly at?: string;
  readonly before?: number;
  readonly partial?: boolean;
}

interface LoadOptions {
  readonly partial?: boolean;
}

class LoopDetector {
  #private;
  constructor(options?: LoopOptions);
  check(text: string): LoopVerdict;
  reset(): void;
  stats(): {
    checked: number;
    remembered: number;
    distinct: number;
    warn: number;
    alternative: number;
    halt: number;
  };
  save(): string;
  load(saved: string): void;
}

interface LoopOptions {
  readonly window?: number;
  readonly threshold?: number;
  readonly minLength?: number;
}

type LoopVerdict = "none" | "warn" | "alternative" | "halt";

interface Message extends MessageFields {
  role: Role;
  content: string;
  toolCalls?: ToolCall[];
  toolCallId?: string;
}

interface MessageDescription {
  readonly role: Role;
  readonly text: string;
  readonly id: string | undefined;
  readonly timestamp: number | undefined;
}

interface MessageFields {
  id?: string;
  timestamp?: number;
  tokens?: number;
  attachments?: Attachment[];
  parentId?: string;
  metadata?: Record<string, unknown>;
}

type Migration = {
  migrate(state: unknown): unknown;
}["migrate"];

type NeededBy =
  | {
      readonly kind: "checkpoint";
      readonly id: string;
      readonly seq: number;
    }
  | {
      readonly kind: "branch";
      readonly branch: string;
    }
  | {
      readonly kind: "run";
      readonly branch: string;
    }
  | {
      readonly kind: "rewind";
      readonly branch: string;
    }
  | {
      readonly kind: "damage";
      readonly detail: string;
    };

interface OpenOptions extends StoreOptions {
  readonly classes?: readonly AnyStoredClass[];
  readonly on?: Listeners;
  readonly cacheBytes?: number;
  readonly newId?: () => string;
  readonly lease?: Duration;
  readonly migrations?: Readonly<Record<string, AgentMigrations>>;
}

interface OpenRun<State = unknown> extends AsyncDisposable {
  readonly session: string;
  readonly branch: string;
  readonly turn: number;
  readonly finished: RunResult<State> | undefined;
  state: State;
  readonly signal: AbortSignal;
  readonly usage: Required<Usage>;
  llm<Result>(
    call: (context: LlmContext) => Result | Promise<Result>,
    options?: LlmOptions<Awaited<Result>>,
  ): Promise<Reply<Awaited<Result>>>;
  tool<Result>(
    call: ToolCall,
    run: (context: EffectContext) => Result | Promise<Result>,
    options?: OpenToolOptions<Awaited<Result>>,
  ): Promise<Awaited<Result>>;
  effect<Result>(
    name: string,
    run: (context: EffectContext) => Result | Promise<Result>,
    options?: EffectOptions<Awaited<Result>>,
  ): Promise<Awaited<Result>>;
  remember<Value>(name: string, make: () => Value): Value;
  stepDone(trigger?: string): Promise<void>;
  complete(output?: unknown): Promise<RunResult<State>>;
  fail(reason: unknown): Promise<RunResult<State>>;
  release(): Promise<void>;
}

interface OpenRunOptions<State = unknown> {
  readonly session: string;
  readonly agent?: string;
  readonly branch?: string;
  readonly turn?: string;
  readonly abandon?: boolean;
  readonly initial: () => State | Promise<State>;
}

type OpenTarget = string | Store | SqliteDatabase | PostgresPool;

interface OpenToolOptions<Result = unknown> extends EffectOptions<Result> {
  readonly stopped?: AbortSignal | undefined;
}

type PolicyTarget =
  | {
      readonly agent: string;
    }
  | {
      readonly session: string;
    };

interface PostgresPool {
  query(statement: Statement): Promise<PostgresResult>;
  connect(): Promise<PostgresClient>;
  end(): Promise<void>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "acquire", listener: (client: PostgresClient) => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
  readonly options?: {
    readonly max?: number | undefined;
  };
}

interface PruneOptions extends RetentionOptions {
  readonly dryRun?: boolean;
  readonly onProgress?: (progress: PruneProgress) => void;
}

interface PruneProgress {
  readonly sessions: number;
  readonly removed: number;
}

interface PruneResult {
  readonly dryRun: boolean;
  readonly removed: number;
  readonly gone: readonly PrunedCheckpoint[];
  readonly kept: readonly KeptCheckpoint[];
  readonly items: number;
  readonly bytes: number;
  readonly rowsOnly: boolean;
}

interface PruneTarget {
  readonly session?: string;
  readonly agent?: string;
}

interface PrunedCheckpoint {
  readonly id: string;
  readonly seq: number;
  readonly sessionId: string | undefined;
  readonly agent: string | undefined;
}

interface QuarantineEvent {
  readonly type: "quarantined";
  readonly sessionId: string;
  readonly branch: string;
  readonly reason: string;
}

interface Question {
  readonly id: string;
  readonly kind: "ask" | "unknown";
  readonly text: string;
  readonly call?: ToolCall;
  readonly startedAt?: number;
  readonly data?: unknown;
}

type RecoverOptions = Pick<RunOptions, "restartStep" | "wait">;

interface RepairOptions {
  readonly from?: BundleSource | readonly string[];
  readonly dryRun?: boolean;
  readonly onProgress?: (progress: Readonly<SurveyCounts>) => void;
}

interface RepairReport {
  readonly dryRun: boolean;
  readonly ok: boolean;
  readonly healed: readonly VerifyProblem[];
  readonly holes: readonly VerifyProblem[];
}

interface RestorePlan {
  readonly agent: string | undefined;
  readonly sessionId: string | undefined;
  readonly changes: readonly Change[];
  readonly restored: readonly RestoredConversation[];
  readonly recreated: readonly string[];
  readonly removed: readonly string[];
}

interface RestoreReport extends RestorePlan {
  readonly checkpoint: AnyCheckpointInfo;
  readonly before: AnyCheckpointInfo;
}

interface RestoredConversation {
  readonly id: string;
  readonly messagesBefore: number;
  readonly messagesAfter: number;
}

interface RetentionOptions {
  readonly keepLast?: number;
  readonly keepHourly?: number;
  readonly keepDaily?: number;
  readonly keepWeekly?: number;
  readonly keepWithin?: Duration;
  readonly keepLabelled?: boolean;
  readonly kinds?: readonly CheckpointKind[];
  readonly ttl?: Duration;
  readonly expired?: boolean;
}

class RetentionPolicies {
  #private;
  constructor(host: RetentionHost);
  set(target: PruneTarget, options: RetentionOptions): Promise<void>;
  load(target: PruneTarget): Promise<RetentionOptions | undefined>;
  list(): Listing<RetentionPolicy>;
  delete(target: PruneTarget): Promise<boolean>;
  apply(): Promise<PruneResult>;
}

interface RetentionPolicy {
  readonly target: PruneTarget;
  readonly options: RetentionOptions;
}

interface RetryOptions {
  readonly attempts?: number;
  readonly delay?: Duration;
  readonly factor?: number;
  readonly maxDelay?: Duration;
  readonly jitter?: number;
}

type Role = "system" | "user" | "assistant" | "tool";

interface Run<State = unknown> {
  readonly session: string;
  readonly branch: string;
  readonly step: number;
  readonly turn: number;
  state: State;
  readonly signal: AbortSignal;
  readonly usage: Required<Usage>;
  readonly loop: LoopVerdict;
  update(change: (state: State) => State | void): void;
  llm<Result>(
    call: (context: LlmContext) => Result | Promise<Result>,
    options?: LlmOptions<Awaited<Result>>,
  ): Promise<Reply<Awaited<Result>>>;
  tool<Result>(
    call: ToolCall,
    run: (context: EffectContext) => Result | Promise<Result>,
    options?: EffectOptions<Awaited<Result>>,
  ): Promise<Awaited<Result>>;
  effect<Result>(
    name: string,
    run: (context: EffectContext) => Result | Promise<Result>,
    options?: EffectOptions<Awaited<Result>>,
  ): Promise<Awaited<Result>>;
  now(): number;
  random(): number;
  uuid(): string;
  sleep(time: Duration | Date): Promise<void>;
  ask<Answer = unknown>(question: string | AskOptions): Promise<Answer>;
  complete<Output>(output: Output): Completion<Output>;
  complete(): Completion<undefined>;
  fail(reason: string): Completion<never>;
  halt(reason: string): Completion<never>;
}

type RunEvent = RunEventBody & {
  readonly sessionId: string;
  readonly branch: string;
};

type RunEventOf<Type extends RunEventType> = Extract<
  RunEvent,
  {
    readonly type: Type;
  }
>;

type RunEventType = RunEventBody["type"];

interface RunHandle<State = unknown, Output = unknown> {
  readonly session: string;
  readonly branch: string;
  result(): Promise<RunResult<State, Output>>;
  cancel(reason?: string): Promise<void>;
  on<Type extends RunEventType>(type: Type, listener: (event: RunEventOf<Type>) => void): () => void;
}

interface RunOptions<Input = unknown> {
  readonly session: string;
  readonly input?: Input;
  readonly key?: string;
  readonly branch?: string;
  readonly restartStep?: boolean;
  readonly resume?: boolean;
  readonly wait?: boolean;
  readonly limits?: Limits;
  readonly onEvent?: (event: RunEvent) => void;
}

type RunResult<State = unknown, Output = unknown> = CompletedRun<State, Output> | EndedRun<State> | WaitingRun<State>;

interface SaveAgentOptions {
  readonly expectedVersion?: number;
}

interface SaveOptions {
  readonly id?: string;
  readonly parent?: string | null;
  readonly resetBranch?: boolean;
  readonly step?: number;
  readonly kind?: CheckpointKind;
  readonly status?: CheckpointStatus;
  readonly reason?: string;
  readonly label?: string;
  readonly description?: string;
  readonly trigger?: string;
  readonly resumeHint?: string;
  readonly tasksCompleted?: number;
  readonly usage?: Usage;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly pinned?: boolean;
  readonly ttl?: Duration;
}

interface SavedAgent<State = Record<string, unknown>> extends SavedAgentInfo {
  readonly systemPrompt: string | undefined;
  readonly config: Record<string, unknown>;
  readonly state: State;
  readonly activeConversations: readonly string[];
  readonly skipped: readonly SkippedCheckpoint[];
}

interface SavedAgentInfo {
  readonly id: string;
  readonly name: string;
  readonly type: string | undefined;
  readonly capabilities: readonly string[];
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly createdAt: number;
  readonly modifiedAt: number;
  readonly version: number;
}

class Savepoint implements AsyncDisposable {
  #private;
  readonly sessions: Sessions;
  readonly agents: Agents;
  readonly conversations: Conversations;
  readonly checkpoints: Checkpoints;
  readonly autoCheckpoints: AutoCheckpoints;
  readonly backups: AutoBackups;
  readonly lastShutdown: LastShutdown;
  readonly retention: RetentionPolicies;
  private constructor();
  static open(target?: OpenTarget, options?: OpenOptions): Promise<Savepoint>;
  get url(): string;
  session<State = unknown>(id: string, options?: SessionOptions): Session<State>;
  run<Input, State, Output>(
    agent: Agent<Input, State, Output>,
    options: RunOptions<NoInfer<Input>>,
  ): Promise<RunResult<State, Output>>;
  start<Input, State, Output>(
    agent: Agent<Input, State, Output>,
    options: RunOptions<NoInfer<Input>>,
  ): Promise<RunHandle<State, Output>>;
  openRun<State>(options: OpenRunOptions<State>): Promise<OpenRun<State>>;
  recover<State, Output>(
    agents: readonly Agent<never, State, Output>[],
    options?: RecoverOptions,
  ): Promise<RunHandle<State, Output>[]>;
  enqueue<Input, State, Output>(
    agent: Agent<Input, State, Output> | string,
    options: EnqueueOptions<NoInfer<Input>>,
  ): Promise<boolean>;
  worker<State, Output>(agents: readonly Agent<never, State, Output>[], options?: WorkerOptions): Worker;
  send(
    session: string,
    input: unknown,
    options?: {
      readonly key?: string;
      readonly branch?: string;
    },
  ): Promise<boolean>;
  answer(
    session: string,
    value: unknown,
    options?: {
      readonly question?: string;
      readonly branch?: string;
    },
  ): Promise<void>;
  cancel(
    session: string,
    reason?: string,
    options?: {
      readonly branch?: string;
    },
  ): Promise<boolean>;
  watch(session: string, options?: WatchOptions): AsyncGenerator<WatchEvent>;
  journal(
    session: string,
    options?: {
      readonly branch?: string;
    },
  ): Listing<JournalEntry>;
  search(text: string, options?: SearchOptions): Promise<SearchHit[]>;
  stats(options?: { readonly agent?: string }): Promise<Stats>;
  prune(options: PruneTarget & PruneOptions): Promise<PruneResult>;
  export(target?: ExportTarget, options?: ExportOptions): Bundle;
  import(source: BundleSource, options?: ImportOptions): Promise<ImportResult>;
  verify(options?: VerifyOptions): Promise<VerifyReport>;
  repair(options?: RepairOptions): Promise<RepairReport>;
  backup(options: BackupOptions): Promise<BackupResult>;
  compact(options?: CollectOptions): Promise<CollectReport>;
  bytes(): Promise<number>;
  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

class SavepointError<Code extends SavepointErrorCode = SavepointErrorCode> extends Error {
  readonly name: string;
  readonly code: Code;
  readonly details: SavepointErrorDetails;
  constructor(code: Code, message: string, options?: SavepointErrorOptions);
  static [Symbol.hasInstance](value: unknown): boolean;
}

type SavepointErrorCode =
  | "ACCESS_DENIED"
  | "AGENT_FAILED"
  | "AGENT_MISMATCH"
  | "AGENT_NOT_FOUND"
  | "AGENT_TOO_OLD"
  | "ALREADY_RUNNING"
  | "BRANCH_EXISTS"
  | "BRANCH_NOT_FOUND"
  | "BUSY"
  | "CHECKPOINT_NOT_FOUND"
  | "CLOSED"
  | "CONFLICT"
  | "CONVERSATION_NOT_FOUND"
  | "DAMAGED"
  | "INPUT_MISMATCH"
  | "INVALID_ARGUMENT"
  | "INVALID_ID"
  | "INVALID_STATE"
  | "INVALID_URL"
  | "IO_FAILED"
  | "LEASE_LOST"
  | "MISSING_DEPENDENCY"
  | "NONDETERMINISM"
  | "NOT_A_STORE"
  | "NOT_WAITING"
  | "OUTCOME_UNKNOWN"
  | "RUN_ENDED"
  | "SESSION_DELETED"
  | "SESSION_NOT_FOUND"
  | "STORE_FAILED"
  | "STORE_NOT_FOUND"
  | "STORE_TOO_NEW"
  | "STORE_TOO_OLD"
  | "TIMEOUT"
  | "UNANSWERED_TOOL_CALLS"
  | "UNAVAILABLE"
  | "UNFINISHED_TURN";

type SavepointErrorDetails = Readonly<Record<string, unknown>>;

interface SavepointErrorOptions extends ErrorOptions {
  readonly details?: SavepointErrorDetails;
}

interface SavepointEvents {
  readonly damage: DamageEvent;
  readonly backgroundFailure: BackgroundFailureEvent;
  readonly indexing: IndexingEvent;
  readonly uncleanShutdown: LastShutdown;
  readonly run: RunEvent;
}

interface SearchHit {
  readonly source: "conversation" | "session";
  readonly id: string;
  readonly agent: string | undefined;
  readonly messageId: string | undefined;
  readonly path: string | undefined;
  readonly branch: string | undefined;
  readonly role: Role | undefined;
  readonly timestamp: number | undefined;
  readonly snippet: string;
}

interface SearchOptions {
  readonly agent?: string;
  readonly role?: Role;
  readonly tags?: readonly string[];
  readonly archived?: boolean;
  readonly since?: number | Date;
  readonly limit?: number;
}

class Session<State = unknown> {
  #private;
  readonly id: string;
  readonly branch: string;
  readonly agent: string | undefined;
  constructor(host: SessionHost, reader: SessionReader, options: SessionOptions);
  save(state: State, options?: SaveOptions): Promise<CheckpointInfo>;
  append(
    path: string,
    elements: readonly unknown[],
    options?: Omit<SaveOptions, "parent" | "resetBranch">,
  ): Promise<CheckpointInfo>;
  update(
    change: (state: Readonly<State> | undefined) => State,
    options?: Omit<SaveOptions, "parent" | "resetBranch">,
  ): Promise<CheckpointInfo>;
  latest(): Promise<Checkpoint<State> | undefined>;
  head(): Promise<CheckpointInfo | undefined>;
  load(ref: CheckpointRef, options?: LoadOptions): Promise<Checkpoint<State> | undefined>;
  history(options?: HistoryOptions): Listing<CheckpointInfo>;
  branches(): Listing<BranchInfo>;
  fork(ref: CheckpointRef, options?: ForkOptions<State>): Promise<Session<State>>;
  rewind(ref: CheckpointRef): Promise<CheckpointInfo>;
  diff(from: CheckpointRef, to: CheckpointRef): Promise<Change[]>;
  label(ref: CheckpointRef, label: string | undefined): Promise<void>;
  annotate(ref: CheckpointRef, name: string, change: (before: unknown) => unknown): Promise<void>;
  annotations(from: number, to?: number): Promise<Annotations>;
  pin(ref: CheckpointRef, pinned?: boolean): Promise<void>;
  prune(options: PruneOptions): Promise<PruneResult>;
  clear(): Promise<number>;
}

interface SessionInfo {
  readonly id: string;
  readonly agent: string | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly status: Status;
  readonly reason: string | undefined;
  readonly questions: readonly Question[];
  readonly wakeAt: number | undefined;
  readonly head: CheckpointInfo | undefined;
}

interface SessionListOptions {
  readonly agent?: string;
  readonly status?: Status;
  readonly limit?: number;
}

interface SessionOptions {
  readonly agent?: string;
  readonly branch?: string;
}

class Sessions {
  #private;
  constructor(context: () => Context, forget: Forget);
  list(options?: SessionListOptions): Listing<SessionInfo>;
  load(id: string): Promise<SessionInfo | undefined>;
  delete(id: string): Promise<boolean>;
}

interface SkippedCheckpoint {
  readonly id: string | undefined;
  readonly seq: number;
  readonly reason: string;
}

interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
  close(): unknown;
}

interface Stats {
  readonly agents: number;
  readonly conversations: number;
  readonly messages: number;
  readonly sessions: number;
  readonly checkpoints: number;
  readonly bytes: number;
}

type Status = CheckpointStatus | "interrupted";

interface Store extends AsyncDisposable {
  readonly url: string;
  readonly capabilities: StoreCapabilities;
  get(keys: readonly string[]): Promise<(StoredRecord | UnreadableRecord | undefined)[]>;
  list(
    range: KeyRange,
    options: {
      readonly limit: number;
      readonly reverse?: boolean;
    },
  ): Promise<(StoredRecord | UnreadableRecord)[]>;
  items(spans: readonly ItemSpan[]): Promise<(Frame | Unreadable)[]>;
  blob(hash: string): Promise<Uint8Array | Unreadable>;
  commit(commit: Commit): Promise<CommitResult>;
  now(): Promise<number>;
  itemRefs(span: ItemSpan): Promise<ItemRefs[] | Unreadable>;
  tapes(range: KeyRange): Promise<string[]>;
  retain(
    tape: string,
    live: readonly {
      readonly start: number;
      readonly count: number;
    }[],
    options: {
      readonly below: number;
      readonly repack?: boolean;
    },
  ): Promise<Freed>;
  blobs(options: { readonly after: string; readonly limit: number }): Promise<string[]>;
  dropBlobs(
    hashes: readonly string[],
    options: {
      readonly unusedSince: number;
    },
  ): Promise<Freed>;
  compact(): Promise<void>;
  bytes(): Promise<number>;
  bytesOf(ranges: StoredRanges): Promise<number>;
  reserve?(
    ranges: readonly KeyRange[],
    options: {
      readonly limit: number;
      readonly forMs: number;
    },
  ): Promise<(StoredRecord | UnreadableRecord)[]>;
  listen?(listener: (name: string) => void): Promise<() => Promise<void>>;
  readonly texts?: TextIndex;
  heal(tape: string, items: ReadonlyMap<number, Frame>): Promise<number>;
  check?(): Promise<StoreProblem[]>;
  close(): Promise<void>;
}

interface StoredClass<Instance = unknown, Stored = unknown> {
  readonly name: string;
  readonly class: abstract new (...args: never[]) => Instance;
  encode(instance: Instance): Stored;
  decode(stored: Stored): Instance;
}

type Strategy =
  | "afterToolCall"
  | "afterLlmResponse"
  | "everyStep"
  | "never"
  | {
      readonly everyN: number;
    };

interface ToJsonOptions {
  readonly maxBytes?: number;
  readonly omitUndefined?: boolean;
}

interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments?: unknown;
  readonly result?: unknown;
  readonly status?: ToolCallStatus;
}

type ToolCallStatus = "pending" | "running" | "completed" | "failed";

type UnknownPolicy = "ask" | "retry" | "verify" | "fail";

interface Usage {
  readonly tokens?: number;
  readonly cost?: number;
}

type Verdict<Result = unknown> =
  | {
      readonly happened: true;
      readonly result: Result;
    }
  | {
      readonly happened: false;
    };

type VerifyCounts = Readonly<SurveyCounts>;

interface VerifyOptions {
  readonly deep?: boolean;
  readonly sample?: number;
  readonly session?: string;
  readonly agent?: string;
  readonly checkpoint?: string;
  readonly bundle?: BundleSource;
  readonly onProgress?: (progress: VerifyCounts) => void;
}

interface VerifyProblem {
  readonly kind: "record" | "item" | "blob" | "structure" | "store" | "bundle";
  readonly sessionId?: string;
  readonly agent?: string;
  readonly conversationId?: string;
  readonly checkpoints: readonly string[];
  readonly place: string;
  readonly reason: string;
  readonly asOf?: number;
}

interface VerifyReport extends VerifyCounts {
  readonly ok: boolean;
  readonly deep: boolean;
  readonly problems: readonly VerifyProblem[];
}

interface WaitingRun<State> extends Common<State>, Omit<Absent, "question" | "questions" | "wakeAt"> {
  readonly status: "waiting";
  readonly question: Question | undefined;
  readonly questions: readonly Question[];
  readonly wakeAt: number | undefined;
}

type WatchEvent = Extract<
  RunEventBody,
  {
    readonly type: "status" | "checkpoint" | "effect";
  }
>;

interface WatchOptions {
  readonly branch?: string;
  readonly keepOpen?: boolean;
  readonly signal?: AbortSignal;
}

interface WholeConversation extends ConversationOptions<unknown> {
  readonly id: string;
  readonly messages: readonly unknown[];
}

class Worker implements AsyncDisposable {
  #private;
  readonly name: string;
  constructor(host: WorkerHost, agents: ReadonlyMap<string, Agent>, options: WorkerSettings);
  get running(): number;
  start(): Promise<void>;
  stop(options?: { readonly grace?: number }): Promise<void>;
  on<Type extends WorkerEventType>(type: Type, listener: (event: WorkerEventOf<Type>) => void): () => void;
  [Symbol.asyncDispose](): Promise<void>;
  emit(event: WorkerEvent): void;
}

type WorkerEvent = RunEvent | QuarantineEvent | WorkerFailureEvent;

type WorkerEventOf<Type extends WorkerEventType> = Type extends RunEventType
  ? RunEventOf<Type>
  : Extract<
      WorkerEvent,
      {
        readonly type: Type;
      }
    >;

type WorkerEventType = WorkerEvent["type"];

interface WorkerFailureEvent {
  readonly type: "failure";
  readonly message: string;
  readonly error: unknown;
}

interface WorkerOptions {
  readonly concurrency?: number;
  readonly lease?: Duration;
  readonly name?: string;
  readonly poll?: Duration;
  readonly grace?: Duration;
  readonly maxDeaths?: number;
  readonly signals?: boolean;
}

function applyChanges(state: unknown, changes: readonly Change[]): unknown;

function defineAgent<Input, State, Result>(
  definition: AgentDefinition<Input, State, Result>,
): Agent<Input, State, OutputOf<Awaited<Result>>>;

function describeMessage(value: unknown): MessageDescription | undefined;

function findStore(folder?: string, env?: Environment): string;

function fromJson(json: unknown): unknown;

function isSavepointError(error: unknown): error is SavepointError;
function isSavepointError<Code extends SavepointErrorCode>(error: unknown, code: Code): error is SavepointError<Code>;

const message: {
  system: (content: string, fields?: MessageFields) => Message;
  user: (content: string, fields?: MessageFields) => Message;
  assistant: (content: string, toolCalls?: readonly ToolCall[], fields?: MessageFields) => Message;
  toolResult: (toolCallId: string, result: unknown, fields?: MessageFields) => Message;
};

function pendingToolCalls(state: unknown): ToolCall[];

function shouldCheckpoint(strategy: Strategy, event: CheckpointEvent, iteration: number): boolean;

function toJson(value: unknown, options?: ToJsonOptions): Json;

function toMilliseconds(duration: Duration, name: string): number;
