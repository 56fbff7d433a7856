/** Opening a store: from a URL and options to the services behind a `Savepoint`. */
import type { Context } from "../context.js";
import { Encryption, type EncryptionOptions, parseKeyRing } from "../encryption/index.js";
import { Events, type LastShutdown, type Listeners, ProcessRegistration } from "../events/index.js";
import { PolicyCache, SweepSchedules } from "../policies/index.js";
import { createIdSource, validateReads } from "../records/index.js";
import { readLastShutdown, type StoreAddress } from "../runs/index.js";
import { type AgentMigrations, Migrations } from "../sessions/index.js";
import { type AnyStoredClass, ClassRegistry } from "../state/index.js";
import { openTarget, type OpenTarget, type Store, type StoredRecord, type StoreOptions } from "../store/index.js";
import { type Duration, invalidArgument, LruMap, toMilliseconds } from "../util/index.js";
import { ScopedStore } from "./scope/scoped-store.js";
import { Scope, type ScopeOptions } from "./scope/scope.js";
import { Services } from "./services.js";

/** Options of `Savepoint.open()`. */
export interface OpenOptions extends StoreOptions {
  /**
   * Classes whose instances may be part of states. `Date`, `Map`, `Set`, `BigInt`, `Uint8Array` and `URL` need no entry.
   * @default none
   */
  readonly classes?: readonly AnyStoredClass[];
  /** Event listeners that are registered before the store is opened, so that they miss no event. See `sp.on()`. */
  readonly on?: Listeners;
  /**
   * Memory for the cached states of open sessions, in bytes. Saving a session whose state is no longer cached first loads it.
   * @default 134217728 (128 MB)
   */
  readonly cacheBytes?: number;
  /**
   * Generates ids of checkpoints and conversations. Ids must be unique within the store.
   * @default UUIDv7
   */
  readonly newId?: () => string;
  /**
   * How long other machines wait after the last heartbeat of this process before they resume its runs. A shorter lease means
   * faster recovery from a dead machine and more heartbeats. On Linux, other processes on the same machine and in the
   * same pid namespace detect the death of a process immediately. At least 100 ms.
   * @default "30s"
   */
  readonly lease?: Duration;
  /**
   * Migrations by agent id: functions that upgrade states of earlier versions when they are loaded. They apply to
   * `sp.agents` (list `agent`) and to session handles of `sp.session()` (list `session`).
   *
   * The rule: declare the migrations of session states where the states are written. An agent that Savepoint runs declares
   * them in `defineAgent({ migrations })`, an application that saves through `sp.session()` declares them here. If a session
   * is used both ways, pass the same array to both, because both count their migrations in the same stored version.
   * Migrations of an agent's own state (`sp.agents`) are declared only here.
   *
   * @example
   * const upgradeTicket = [(state) => ({ ...state, priority: "normal" })];
   * const support = defineAgent({ name: "support", migrations: upgradeTicket, initial, step });
   * const sp = await Savepoint.open(url, { migrations: { support: { session: upgradeTicket } } });
   *
   * @default none
   */
  readonly migrations?: Readonly<Record<string, AgentMigrations>>;
  /**
   * Confines this `Savepoint` to one agent: its sessions, conversations, checkpoints and runs. What belongs to other agents, or
   * to none, does not exist for it. New sessions and conversations belong to the agent; naming another agent is an
   * `INVALID_ARGUMENT`. Operations on the whole store fail with `OUT_OF_SCOPE`. Reads also read the owner, and search builds an
   * index of the agent's texts in memory.
   *
   * @example
   * const sp = await Savepoint.open(url, { scope: { agent: "support" } });
   *
   * @default the whole store
   */
  readonly scope?: ScopeOptions;
  /**
   * Encrypts all content: states, messages, tool calls, questions, titles, attachments. Ids, labels, names of agents,
   * times and sizes stay readable. An empty store becomes encrypted; a store with plain data is rejected with `NOT_ENCRYPTED`
   * (`sp.rekey({ to })` encrypts it), an encrypted one without its key with `KEY_REQUIRED` or `WRONG_KEY`. Costs up to 25 µs a
   * save. Search builds an index in memory.
   *
   * @example
   * const sp = await Savepoint.open(url, { encryption: { key } }); // 32 bytes
   *
   * @default none
   */
  readonly encryption?: EncryptionOptions;
}

/** A store that was just opened. */
export interface OpenedStore {
  readonly services: Services;
  readonly lastShutdown: LastShutdown;
}

const DEFAULT_CACHE_BYTES = 128 * 2 ** 20;
const DEFAULT_LEASE = 30_000;
/** Shorter leases cannot be renewed reliably. */
const MIN_LEASE = 100;
const MAX_DEAD_OWNERS = 1000;

/**
 * Opens the store of `target` and reads how it was last closed.
 *
 * @throws `INVALID_ARGUMENT` before anything is opened, if an option is invalid
 */
export async function openServices(target: OpenTarget, options: OpenOptions): Promise<OpenedStore> {
  const {
    classes,
    on,
    cacheBytes = DEFAULT_CACHE_BYTES,
    newId,
    lease: leaseOption,
    migrations,
    scope: scopeOptions,
    encryption: encryptionOptions,
    ...storeOptions
  } = options;
  const lease = parseLease(leaseOption);
  const scope = new Scope(scopeOptions);
  const ring = encryptionOptions && parseKeyRing(encryptionOptions);
  const registry = new ClassRegistry(classes, (bytes) => encryption.blobName(bytes));
  const declaredMigrations = new Migrations(migrations);
  const events = new Events(on);
  const opened = await openTarget(target, {
    onBackgroundFailure: (failure) => events.emit("backgroundFailure", failure),
    onDamage: (reason) =>
      events.emit("damage", { sessionId: undefined, checkpointId: undefined, seq: undefined, reason }),
    ...storeOptions,
  });
  const { readOnly = false, create = true } = options;
  const ownsStore = typeof target === "string" || !("commit" in target);
  const closing = async (error: unknown): Promise<never> => {
    // An error of closing follows from the first error, and must not replace it.
    if (ownsStore) await opened.close().catch(() => {});
    throw error;
  };
  const encryption = await Encryption.open(opened, ring, { isWritable: !readOnly, create }).catch(closing);
  const plain = encryption.store;
  const registration = opened.capabilities.durable && !readOnly ? new ProcessRegistration(plain) : undefined;
  const confine = (target: Store): Store => (scope.agent === undefined ? target : new ScopedStore(target, scope.agent));
  const store = confine(validateReads(registration?.store ?? plain));
  const now = options.now ?? Date.now;
  const policies = new PolicyCache(store, events, now);
  const sweeps = new SweepSchedules();
  const deadOwners = new LruMap<string, StoredRecord>(MAX_DEAD_OWNERS);
  const shared = { store, registry, encryption, events, policies, sweeps, deadOwners };
  const context: Context = { ...shared, now, newId: newId ?? createIdSource(now) };
  // Also finds out whether a store is encrypted that was opened without a key.
  const { shutdown, registrations } = await readLastShutdown(context).catch(closing);
  // A program that only inspects the store leaves the report of a crash for the program that runs agents.
  if (create && scope.agent === undefined) registration?.deleteReported(registrations);
  const lastShutdown = scope.agent === undefined ? shutdown : confineShutdown(shutdown);
  if (!lastShutdown.clean) events.emit("uncleanShutdown", lastShutdown);
  const services = new Services(context, {
    cacheBytes,
    lease,
    storeAddress: addressFor(target, store, options),
    migrations: declaredMigrations,
    scope,
    registration,
    encryption,
    ownsStore,
  });
  return { services, lastShutdown };
}

/** The interrupted runs of the agent, without the processes, which other agents share. */
function confineShutdown({ interrupted }: LastShutdown): LastShutdown {
  return { clean: interrupted.length === 0, processes: [], interrupted };
}

function parseLease(lease: Duration = DEFAULT_LEASE): number {
  const milliseconds = toMilliseconds(lease, "lease");
  if (milliseconds >= MIN_LEASE) return milliseconds;
  throw invalidArgument(
    `\`lease\` must be at least ${MIN_LEASE} ms, got ${milliseconds} ms: a shorter one cannot be renewed in time.`,
  );
}

/**
 * How the heartbeat thread opens the same store: only by URL, only a shared one, only if it uses the same clock, and never if the
 * store was opened read-only.
 */
function addressFor(
  target: OpenTarget,
  store: Store,
  { schema, mode, now, readOnly, portable }: OpenOptions,
): StoreAddress | undefined {
  if (typeof target !== "string" || !store.capabilities.shared || now !== undefined || readOnly) return undefined;
  const shared = {
    ...(schema !== undefined && { schema }),
    ...(mode !== undefined && { mode }),
    ...(portable !== undefined && { portable }),
  };
  return { url: target, options: { connections: 1, ...shared } };
}
