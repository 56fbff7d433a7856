/**
 * A store as one agent sees it. Everything above a store reads and writes through it, so what belongs to another agent, or
 * to none, does not exist for any method of a scoped `Savepoint`, also not for one that is added later.
 *
 * - A read returns a record only if its session, conversation or agent is the agent's. The owner is read in the same
 *   snapshot, or is fixed: numbers are never reused. Keys of unknown kinds are hidden.
 * - A commit fails before it is sent if it writes anything else. It checks the owners too, so that a session that is deleted
 *   and created again by another agent in the meantime is not changed.
 * - Items of tapes that are not the agent's are missing. Blobs are found only by their hash, and are not filtered.
 * - Operations on the whole store are rejected.
 */
import { SavepointError } from "../../errors.js";
import { decodeConversationListing } from "../../conversations/index.js";
import {
  agentConversationKey,
  agentHistoryId,
  agentSessionKey,
  conversationKey,
  conversationNumberKey,
  conversationsOf,
  decodeConversation,
  decodeNumbers,
  decodeSession,
  ownedBy,
  removedConversationKey,
  sessionKey,
  sessionNumberKey,
  sessionsOfAgent,
  trailingNumberOf,
} from "../../records/index.js";
import {
  type Check,
  type Commit,
  type CommitResult,
  type Frame,
  type Freed,
  type ItemRefs,
  type ItemSpan,
  type KeyRange,
  type RecordResult,
  scan,
  scanPages,
  type Store,
  type StoredRanges,
  type Unreadable,
} from "../../store/index.js";
import { outOfScope } from "./scope.js";
import { type NumberedSubject, type Subject, subjectOf, subjectOfRange } from "./subject.js";

/** The smallest page that a listing reads: most of its records may be hidden. */
const MIN_PAGE = 100;
/** The name of a tape that no store has: names begin with digits. */
const NO_TAPE = "-";

/** A key of a commit, and what it belongs to. */
interface Access {
  readonly subject: Subject;
  /** Set for a check of an existing record. */
  readonly expected?: Check;
  readonly isWrite: boolean;
}

/** A view of a store that is confined to an agent. Members of stores that are not listed here do not exist in it. */
export class ScopedStore implements Store {
  readonly reserve?: NonNullable<Store["reserve"]>;
  readonly listen?: NonNullable<Store["listen"]>;
  readonly #store: Store;
  readonly #agent: string;
  /** Numbers of sessions and conversations of the agent. They are never reused. */
  readonly #numbers = new Set<number>();
  /** Positions of its conversations in lists. Apart from the numbers, because a checkpoint that is restored contains them. */
  readonly #orders = new Set<number>();

  constructor(store: Store, agent: string) {
    this.#store = store;
    this.#agent = agent;
    if (store.listen) this.listen = async (listener) => (await store.listen?.(listener)) ?? (async () => {});
    if (store.reserve) {
      this.reserve = async (ranges, options) => {
        const own = ranges.filter((range) => this.#isOwnAgent(subjectOfRange(range)));
        return (await store.reserve?.(own, options)) ?? [];
      };
    }
  }

  get url(): string {
    return this.#store.url;
  }

  get capabilities(): Store["capabilities"] {
    return this.#store.capabilities;
  }

  async get(keys: readonly string[]): Promise<(RecordResult | undefined)[]> {
    const subjects = keys.map(subjectOf);
    await this.#learn(subjects);
    const owners = [...new Set(subjects.flatMap((subject) => ownerKeyOf(subject) ?? []))];
    const records = await this.#store.get([...keys, ...owners]);
    const own = new Set<string>();
    for (const [index, key] of owners.entries()) {
      if ((await this.#certificateOf(key, records[keys.length + index])) !== undefined) own.add(key);
    }
    return subjects.map((subject, index) => {
      const isVisible = this.#isFixed(subject) || own.has(ownerKeyOf(subject) ?? "");
      const record = isVisible ? records[index] : undefined;
      if (record) this.#learnFrom(record);
      return record;
    });
  }

  async list(
    range: KeyRange,
    { limit, reverse = false }: { readonly limit: number; readonly reverse?: boolean },
  ): Promise<RecordResult[]> {
    const visible: RecordResult[] = [];
    const pageSize = Math.max(limit, MIN_PAGE);
    for (let rest = range; ;) {
      const page = await this.#store.list(rest, { limit: pageSize, reverse });
      // Read again, together with their owners.
      const records = await this.get(page.map(({ key }) => key));
      visible.push(...records.filter((record) => record !== undefined));
      const last = page.at(-1)?.key ?? "";
      if (visible.length >= limit || page.length < pageSize) return visible.slice(0, limit);
      rest = reverse ? { from: rest.from, to: last } : { from: `${last}\u0001`, to: rest.to };
    }
  }

  async commit(commit: Commit): Promise<CommitResult> {
    const certificates = await this.#authorize(commit);
    return this.#store.commit({ ...commit, checks: [...(commit.checks ?? []), ...certificates] });
  }

  async items(spans: readonly ItemSpan[]): Promise<(Frame | Unreadable)[]> {
    const hidden = await this.#findHiddenTapes(spans.map(({ tape }) => tape));
    return this.#store.items(spans.map((span) => (hidden.has(span.tape) ? { ...span, tape: NO_TAPE } : span)));
  }

  async itemRefs(span: ItemSpan): Promise<ItemRefs[] | Unreadable> {
    return (await this.#findHiddenTapes([span.tape])).size > 0 ? [] : this.#store.itemRefs(span);
  }

  async tapes(range: KeyRange): Promise<string[]> {
    const tapes = await this.#store.tapes(range);
    const hidden = await this.#findHiddenTapes(tapes);
    return tapes.filter((tape) => !hidden.has(tape));
  }

  async retain(...args: Parameters<Store["retain"]>): Promise<Freed> {
    const hidden = await this.#findHiddenTapes([args[0]]);
    return hidden.size > 0 ? { items: 0, bytes: 0 } : this.#store.retain(...args);
  }

  blob(hash: string): Promise<Uint8Array | Unreadable> {
    return this.#store.blob(hash);
  }

  bytesOf(ranges: StoredRanges): Promise<number> {
    return this.#store.bytesOf(ranges);
  }

  now(): Promise<number> {
    return this.#store.now();
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async blobs(): Promise<never> {
    throw this.#refuse("collecting the blobs of the store");
  }

  async dropBlobs(): Promise<never> {
    throw this.#refuse("freeing blobs of the store");
  }

  async compact(): Promise<never> {
    throw this.#refuse("compacting the store");
  }

  async bytes(): Promise<never> {
    throw this.#refuse("reading the size of the store");
  }

  async heal(): Promise<never> {
    throw this.#refuse("repairing the store");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Rejects a commit that writes what is not the agent's.
   *
   * @returns checks that the sessions and conversations of the commit are still the agent's
   */
  async #authorize({ checks = [], deletes = [], puts = [] }: Commit): Promise<Check[]> {
    const accesses: Access[] = [
      ...checks.map((check) => {
        const isExpected = "exists" in check || check.value !== undefined;
        return { subject: subjectOf(check.key), isWrite: false, ...(isExpected && { expected: check }) };
      }),
      ...puts.map(({ key }) => ({ subject: subjectOf(key), isWrite: true })),
      ...deletes.map((key) => ({
        subject: typeof key === "string" ? subjectOf(key) : subjectOfRange(key),
        isWrite: true,
      })),
    ];
    await this.#requireUnusedOwners(deletes);
    await this.#learn(accesses.map(({ subject }) => subject));
    const proven = new Set<string>();
    for (const check of checks) {
      if ("value" in check && check.value !== undefined && this.#isOwnRecord(check.key, check.value)) {
        proven.add(check.key);
      }
    }
    const owners = [...new Set(accesses.flatMap(({ subject }) => ownerKeyOf(subject) ?? []))];
    const unproven = owners.filter((key) => !proven.has(key));
    const records = unproven.length > 0 ? await this.#store.get(unproven) : [];
    const created = puts.filter(({ key, value }) => this.#isOwnRecord(key, value));
    const certificates: Check[] = [];
    for (const [index, key] of unproven.entries()) {
      const certificate = await this.#certificateOf(key, records[index]);
      const isNew = !records[index] && created.some((put) => put.key === key);
      if (certificate !== undefined) certificates.push({ key: certificate, exists: true });
      // The agent creates it. Its numbers become the agent's even if the commit fails: no other agent gets them.
      else if (isNew) certificates.push({ key, value: undefined });
      else continue;
      proven.add(key);
    }
    for (const put of created) {
      const ownerKey = ownerKeyOf(subjectOf(put.key));
      if (ownerKey === undefined || proven.has(ownerKey)) this.#learnFrom({ ...put, refs: "" });
    }
    this.#requireOwn(accesses, proven);
    return certificates;
  }

  /** Treats hidden records as missing: a check that expects one conflicts. A write to one is rejected. */
  #requireOwn(accesses: readonly Access[], proven: ReadonlySet<string>): void {
    const hidden = accesses.filter(({ subject }) => !this.#isFixed(subject) && !proven.has(ownerKeyOf(subject) ?? ""));
    const failed = hidden.flatMap(({ expected }) => expected ?? []);
    if (failed.length > 0) {
      const tags = failed.flatMap(({ tag }) => tag ?? []);
      throw new SavepointError("CONFLICT", "A record that the commit expects does not exist.", {
        details: { keys: failed.map(({ key }) => key), tags },
      });
    }
    const readOnly = accesses.find(({ subject }) => subject.kind === "store" && !subject.isWritable);
    const written = hidden.find(({ isWrite }) => isWrite) ?? (readOnly?.isWrite ? readOnly : undefined);
    if (written) throw this.#refuse(describeWrite(written.subject));
  }

  /** The record of a process is kept while runs depend on it, also runs of other agents. */
  async #requireUnusedOwners(deletes: NonNullable<Commit["deletes"]>): Promise<void> {
    for (const key of deletes) {
      if (typeof key !== "string" || !key.startsWith("h")) continue;
      const [held] = await this.#store.list(ownedBy(key.slice(1)), { limit: 1 });
      if (held) throw new SavepointError("CONFLICT", "The owner holds branches.", { details: { keys: [key] } });
    }
  }

  /** Whether the owner of a key is known without a read of its session or conversation. */
  #isFixed(subject: Subject): boolean {
    if (subject.kind === "number") return this.#isOwnNumber(subject);
    return subject.kind === "store" || this.#isOwnAgent(subject);
  }

  #isOwnAgent(subject: Subject): boolean {
    return subject.kind === "agent" && subject.id === this.#agent;
  }

  #isOwnNumber({ number, isOrder }: NumberedSubject): boolean {
    return (isOrder ? this.#orders : this.#numbers).has(number);
  }

  /** Those of these tapes that are not tapes of the agent's sessions and conversations. */
  async #findHiddenTapes(tapes: readonly string[]): Promise<Set<string>> {
    const subjects = new Map(
      [...new Set(tapes)].map((tape) => {
        const number = decodeNumbers(tape, 1).numbers[0] as number;
        return [tape, { kind: "number", number, isOrder: false } satisfies Subject] as const;
      }),
    );
    const isHidden = (subject: NumberedSubject): boolean => !this.#isOwnNumber(subject);
    await this.#learn([...subjects.values()]);
    const unknown = [...subjects.values()].filter(isHidden);
    if (unknown.length > 0) await this.#learnConversations(unknown.map(({ number }) => number));
    return new Set([...subjects].flatMap(([tape, subject]) => (isHidden(subject) ? [tape] : [])));
  }

  /** Learns conversations that are not found by their numbers: removed ones, and those that were restored. */
  async #learnConversations(numbers: readonly number[]): Promise<void> {
    for (const removed of await this.#store.get(numbers.map((each) => removedConversationKey(this.#agent, each)))) {
      if (removed) this.#learnFrom(removed);
    }
    if (numbers.every((number) => this.#numbers.has(number))) return;
    for await (const page of scanPages(this.#store, conversationsOf(this.#agent))) {
      const ids = page.flatMap((record) => ("value" in record ? [decodeConversationListing(record.value).id] : []));
      await this.get(ids.map(conversationKey));
    }
  }

  /** Whether a value is the record of a session or conversation of the agent, or of the agent itself. */
  #isOwnRecord(key: string, value: string): boolean {
    if (key === sessionKey(agentHistoryId(this.#agent))) return true;
    const subject = subjectOf(key);
    if (key !== ownerKeyOf(subject)) return false;
    const { agent } = subject.kind === "session" ? decodeSession(value) : decodeConversation(value);
    return agent === this.#agent;
  }

  /**
   * The key of a record that exists as long as a session or conversation belongs to the agent; `undefined` if it does not.
   *
   * @param key the key of the session or conversation
   */
  async #certificateOf(key: string, record: RecordResult | undefined): Promise<string | undefined> {
    if (!record) return undefined;
    const subject = subjectOf(key);
    if (!("value" in record))
      return subject.kind === "session" || subject.kind === "conversation" ? this.#findListed(subject) : undefined;
    if (!this.#isOwnRecord(key, record.value)) return undefined;
    this.#learnFrom(record);
    return subject.kind === "session"
      ? agentSessionKey(this.#agent, decodeSession(record.value).number)
      : agentConversationKey(this.#agent, decodeConversation(record.value).order);
  }

  /** Finds a session or conversation in the list of the agent, because its own record is damaged. */
  async #findListed({ kind, id }: { readonly kind: string; readonly id: string }): Promise<string | undefined> {
    const range = kind === "session" ? sessionsOfAgent(this.#agent) : conversationsOf(this.#agent);
    for await (const record of scan(this.#store, range)) {
      if (!("value" in record) || decodeConversationListing(record.value).id !== id) continue;
      this.#learnFrom(record);
      return record.key;
    }
    return undefined;
  }

  /** Reads which of these numbers belong to the agent. */
  async #learn(subjects: readonly Subject[]): Promise<void> {
    const numbered = subjects.filter((subject) => subject.kind === "number");
    const unknown = numbered.filter((each) => Number.isSafeInteger(each.number) && !this.#isOwnNumber(each));
    if (unknown.length === 0) return;
    const names = await this.#store.get(
      [...new Set(unknown.map(({ number }) => number))].flatMap((number) => [
        sessionNumberKey(number),
        conversationNumberKey(number),
      ]),
    );
    const keys = names.flatMap((name) => {
      if (!name || !("value" in name)) return [];
      return name.key.startsWith("n") ? sessionKey(name.value) : conversationKey(name.value);
    });
    // Reading the records of the agent learns their numbers.
    if (keys.length > 0) await this.get(keys);
  }

  /** Remembers the numbers in a record of the agent. */
  #learnFrom(record: RecordResult): void {
    const { key } = record;
    if (key.startsWith("j\t")) this.#numbers.add(trailingNumberOf(key));
    if (key.startsWith("k\t")) this.#orders.add(trailingNumberOf(key));
    if (key.startsWith("y\t")) this.#numbers.add(trailingNumberOf(key));
    if (!("value" in record) || !this.#isOwnRecord(key, record.value)) return;
    if (key.startsWith("s")) this.#numbers.add(decodeSession(record.value).number);
    else {
      const { number, order } = decodeConversation(record.value);
      this.#numbers.add(number);
      this.#orders.add(order);
    }
  }

  #refuse(what: string): SavepointError<"OUT_OF_SCOPE"> {
    return outOfScope(this.#agent, what);
  }
}

/** The key of the record that names the owner; `undefined` for what is not a session or conversation by its id. */
function ownerKeyOf(subject: Subject): string | undefined {
  if (subject.kind === "session") return sessionKey(subject.id);
  return subject.kind === "conversation" ? conversationKey(subject.id) : undefined;
}

function describeWrite(subject: Subject): string {
  return subject.kind === "session" || subject.kind === "conversation"
    ? `the ${subject.kind} id ${JSON.stringify(subject.id)}`
    : "this write";
}
