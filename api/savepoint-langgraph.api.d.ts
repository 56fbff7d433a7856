interface FoundThread {
  readonly threadId: string;
  readonly messageId: string | undefined;
  readonly role: Role | undefined;
  readonly snippet: string;
}

interface ListThreadsOptions {
  readonly limit?: number;
  readonly filter?: Readonly<Record<string, unknown>>;
}

interface MigrateOptions {
  readonly threads?: readonly string[];
  readonly onProgress?: (progress: MigrateProgress) => void;
}

interface MigrateProgress {
  readonly threadId: string;
  readonly threads: number;
  readonly ofThreads: number;
  readonly checkpoints: number;
}

interface MigrateReport {
  readonly threads: number;
  readonly copied: number;
  readonly present: number;
  readonly verified: number;
}

class SavepointSaver extends BaseCheckpointSaver implements AsyncDisposable {
  #private;
  constructor(sp: Savepoint, options?: SavepointSaverOptions);
  constructor(open: () => Promise<Savepoint>, options?: SavepointSaverOptions);
  static fromConnString(url: string, options?: SavepointSaverOptions & OpenOptions): SavepointSaver;
  setup(): Promise<void>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
  getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined>;
  list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple>;
  put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions?: ChannelVersions,
  ): Promise<RunnableConfig>;
  putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void>;
  deleteThread(threadId: string): Promise<void>;
  getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>>;
  listThreads(options?: ListThreadsOptions): Listing<ThreadInfo>;
  searchThreads(text: string, options?: Omit<SearchOptions, "agent" | "tags" | "archived">): Promise<FoundThread[]>;
  copyThread(from: string, to: string): Promise<number>;
  prune(
    options: PruneOptions & {
      readonly threadId?: string;
    },
  ): Promise<PruneResult>;
  deleteExpired(): Promise<number>;
  migrateFrom(source: BaseCheckpointSaver<string | number>, options?: MigrateOptions): Promise<MigrateReport>;
}

interface SavepointSaverOptions {
  readonly agent?: string;
  readonly onConcurrentWrite?: "branch" | "reject";
  readonly ttl?: Duration;
  readonly now?: () => number;
}

interface ThreadInfo {
  readonly threadId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly expiresAt: number | undefined;
  readonly checkpointId: string;
  readonly metadata: CheckpointMetadata;
}
