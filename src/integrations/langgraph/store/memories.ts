/** The namespaces of a store: those that this process has used recently, and finding those that are stored. */
import type { CheckpointInfo, SessionInfo } from "../../../index.js";
import { type NamespaceState, type Outline, isListed } from "./items.js";
import { Memory, type MemoryContext } from "./memory.js";
import { type Namespace, SessionIds } from "./namespaces.js";

/** The most namespaces that are cached, and the most stored bytes of their states. An evicted namespace is read again. */
const MAX_MEMORIES = 5_000;
const MAX_BYTES = 64 * 2 ** 20;
/** The most states that are read at the same time. */
const READ_AHEAD = 16;

/** A namespace with items. */
export interface FoundMemory {
  readonly memory: Memory;
  readonly head: CheckpointInfo;
  readonly outline: Outline;
}

export class Memories {
  readonly #context: MemoryContext;
  readonly #ids: SessionIds;
  readonly #memories = new Map<string, Memory>();

  constructor(context: MemoryContext) {
    this.#context = context;
    this.#ids = new SessionIds(context.agent);
  }

  get(namespace: Namespace): Memory {
    const id = this.#ids.of(namespace);
    const memory = this.#memories.get(id) ?? new Memory(this.#context, id, [...namespace]);
    // The most recently used one is the last.
    this.#memories.delete(id);
    this.#memories.set(id, memory);
    return memory;
  }

  /** Drops the namespaces that were not used for the longest time, if there are too many. */
  evict(): void {
    let bytes = 0;
    for (const memory of this.#memories.values()) bytes += memory.bytes;
    for (const [id, memory] of this.#memories) {
      if (this.#memories.size <= MAX_MEMORIES && bytes <= MAX_BYTES) break;
      if (!memory.isIdle || this.#memories.size === 1) continue;
      this.#memories.delete(id);
      bytes -= memory.bytes;
    }
  }

  /**
   * The namespaces that begin with a prefix and have items, in the order of their creation. Reads the heads of these
   * namespaces, and no others.
   */
  async find(prefix: Namespace): Promise<FoundMemory[]> {
    const all = await this.findAll(prefix);
    const now = this.#context.now();
    return all.filter(({ outline }) => isListed(outline, now));
  }

  /** Like {@link find}, also those whose items have all expired or were deleted. */
  async findAll(prefix: Namespace): Promise<FoundMemory[]> {
    const { sp, agent } = this.#context;
    // First, because it throws at once if the prefix is too long for an id.
    const listing = sp.sessions.list({ agent, prefix: this.#ids.prefixBelow(prefix) });
    const [exact, below] = await Promise.all([
      prefix.length === 0 ? undefined : sp.sessions.load(this.#ids.of(prefix)),
      listing.all(),
    ]);
    const found: FoundMemory[] = [];
    for (const info of exact?.agent === agent ? [exact, ...below] : below) {
      const memory = await this.#find(info);
      if (memory) found.push(memory);
    }
    this.evict();
    return found.sort((a, b) => a.outline.createdAt - b.outline.createdAt);
  }

  async #find({ id, head }: SessionInfo): Promise<FoundMemory | undefined> {
    const namespace = this.#ids.namespaceOf(id);
    if (!namespace || !head) return undefined;
    const memory = this.get(namespace);
    return { memory, head, outline: await memory.outline(head) };
  }

  /** The states of namespaces, in their order. */
  async *states(found: readonly FoundMemory[]): AsyncGenerator<{ memory: Memory; state: NamespaceState }> {
    for (let at = 0; at < found.length; at += READ_AHEAD) {
      const page = found.slice(at, at + READ_AHEAD);
      const states = await Promise.all(page.map(({ memory, head }) => memory.stateAt(head.id)));
      for (const [index, { memory }] of page.entries()) {
        const state = states[index];
        if (state) yield { memory, state };
      }
      this.evict();
    }
  }
}
