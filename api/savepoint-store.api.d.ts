interface BackgroundFailure {
  readonly message: string;
  readonly error: unknown;
}

interface BlobUse {
  readonly hash: string;
  readonly bytes?: Uint8Array;
}

type Check =
  | {
      readonly key: string;
      readonly value: string | undefined;
    }
  | {
      readonly key: string;
      readonly exists: true;
    };

interface Commit {
  readonly checks?: readonly Check[];
  readonly notBefore?: number;
  readonly deletes?: readonly (string | KeyRange)[];
  readonly puts?: readonly Put[];
  readonly items?: readonly ItemBatch[];
  readonly blobs?: readonly BlobUse[];
  readonly wakes?: readonly string[];
}

interface CommitResult {
  readonly firsts: readonly number[];
}

const DOCUMENTS_PER_SOURCE: number;

interface DiskOptions {
  readonly durability?: Durability;
  readonly busyTimeout?: Duration;
  readonly create?: boolean;
  readonly now?: () => number;
  readonly onBackgroundFailure?: (failure: BackgroundFailure) => void;
  readonly onDamage?: (reason: string) => void;
  readonly syncFile?: SyncFile;
  readonly probe?: (point: string) => void;
}

type Durability = "power" | "process";

interface Frame {
  readonly json: string;
  readonly refs: string;
}

interface Freed {
  readonly items: number;
  readonly bytes: number;
}

type ItemBatch = {
  readonly tape: string;
  readonly items: readonly Frame[];
} & (
  | {
      readonly first: number;
    }
  | {
      readonly counter: string;
    }
);

interface ItemRefs {
  readonly item: number;
  readonly refs: string;
}

interface ItemSpan {
  readonly tape: string;
  readonly start: number;
  readonly count: number;
}

interface KeyRange {
  readonly from: string;
  readonly to: string;
}

interface Mark {
  readonly key: string;
  readonly sum: number | undefined;
}

interface PostgresClient {
  query(statement: Statement): Promise<PostgresResult>;
  query(sql: string, values?: PostgresValue[]): Promise<PostgresResult>;
  release(broken?: boolean): void;
  on(event: "notification", listener: (message: { readonly payload?: string | undefined }) => void): unknown;
  on(event: "error" | "end", listener: (error?: Error) => void): unknown;
  off(event: "error" | "end", listener: (error?: Error) => void): unknown;
}

interface PostgresOptions {
  readonly schema?: string;
  readonly connections?: number;
  readonly patience?: Duration;
  readonly busyTimeout?: Duration;
  readonly durability?: Durability;
  readonly compress?: boolean;
  readonly create?: boolean;
  readonly now?: () => number;
  readonly onBackgroundFailure?: (failure: BackgroundFailure) => void;
  readonly probe?: (point: string) => void;
}

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

interface PostgresResult {
  readonly rows: unknown[];
  readonly rowCount: number | null;
}

type PostgresTarget = string | PostgresPool;

type PostgresValue = string | number | null | Uint8Array;

interface Put {
  readonly key: string;
  readonly value: string;
  readonly refs?: string;
  readonly ifAbsent?: boolean;
}

interface SourceUpdate {
  readonly name: string;
  readonly before: TextSource | undefined;
  readonly from: number;
  readonly texts: readonly string[];
  readonly note: string | undefined;
}

interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
  close(): unknown;
}

interface SqliteOptions extends DiskOptions {
  readonly compress?: boolean;
}

interface SqliteStatement {
  run(...values: SqliteValue[]): {
    changes: number | bigint;
  };
  get(...values: SqliteValue[]): unknown;
  all(...values: SqliteValue[]): unknown[];
}

type SqliteTarget = string | SqliteDatabase;

type SqliteValue = string | number | null | Uint8Array;

interface Statement {
  readonly name?: string;
  readonly text: string;
  readonly values: PostgresValue[];
}

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

interface StoreCapabilities {
  readonly durable: boolean;
  readonly shared: boolean;
}

type StoreOptions = SqliteOptions & Pick<PostgresOptions, "schema" | "connections" | "patience">;

interface StoreProblem {
  readonly place: string;
  readonly reason: string;
  readonly record?: string;
}

interface StoredRanges {
  readonly records: readonly KeyRange[];
  readonly tapes: readonly KeyRange[];
}

interface StoredRecord {
  readonly key: string;
  readonly value: string;
  readonly refs: string;
}

type SyncFile = (file: number, done: (error: Error | null) => void) => void;

interface TextIndex {
  changes(ranges: readonly KeyRange[], limit: number): Promise<Mark[]>;
  sources(names: readonly string[]): Promise<(TextSource | undefined)[]>;
  sourcesById(ids: readonly number[]): Promise<(TextSource | undefined)[]>;
  update(update: TextUpdate): Promise<boolean>;
  find(
    text: string,
    options: {
      readonly below: number;
      readonly limit: number;
    },
  ): Promise<number[]>;
  tidy?(): Promise<void>;
  clear(): Promise<void>;
}

interface TextSource {
  readonly id: number;
  readonly name: string;
  readonly count: number;
  readonly note: string;
}

interface TextUpdate {
  readonly sources: readonly SourceUpdate[];
  readonly marks: readonly Mark[];
}

interface Unreadable {
  readonly unreadable: string;
}

interface UnreadableRecord extends Unreadable {
  readonly key: string;
}

function busyTimeoutOf(options: Pick<DiskOptions, "busyTimeout">): number;

function compareKeys(a: string, b: string): number;

function covers({ from, to }: KeyRange, key: string): boolean;

function createFailureReporter(options: DiskOptions): (message: string, error: unknown) => void;

function isSameSource(source: TextSource | undefined, before: TextSource | undefined): boolean;

function lowerBound(keys: readonly string[], key: string): number;

function openFileStore(path: string, options?: DiskOptions, internals?: FileStoreInternals): Promise<Store>;

function openMemoryStore(options?: { readonly now?: () => number }): Store;

function openPostgresStore(target: PostgresTarget, options?: PostgresOptions): Promise<Store>;

function openSqliteStore(target: SqliteTarget, options?: SqliteOptions): Promise<Store>;

function openStore(url: string, options?: StoreOptions): Promise<Store>;

function prefixRange(prefix: string): KeyRange;
