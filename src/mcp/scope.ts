/**
 * What a server may see and change: the whole store, or what belongs to one agent.
 *
 * Everything that tools and resources read goes through here. Whose something is, is asked of what was loaded and never
 * of what the caller says; what belongs to another agent, or to none, is not there.
 */
import {
  type AgentCheckpoint,
  type AnyCheckpointInfo,
  type Checkpoint,
  type Conversation,
  isSavepointError,
  type LoadConversationOptions,
  type SavedAgent,
  type Savepoint,
  type Session,
  type SessionInfo,
  type SessionOptions,
} from "../index.js";
import { agentNotFound, checkpointNotFound, conversationNotFound, sessionNotFound } from "./not-found.js";

export class AgentScope {
  readonly sp: Savepoint;
  /** The agent that all is confined to. */
  readonly agent: string | undefined;

  constructor(sp: Savepoint, agent: string | undefined) {
    this.sp = sp;
    this.agent = agent;
  }

  /** May what belongs to this agent, or to none, be seen? */
  owns(owner: string | undefined): boolean {
    return this.agent === undefined || owner === this.agent;
  }

  /** The agent that is meant where this one was named, or none. */
  resolveAgent(named: string | undefined): string | undefined {
    if (named !== undefined && !this.owns(named)) throw agentNotFound(named);
    return named ?? this.agent;
  }

  /** The same, as a filter of a listing. */
  agentFilter(named: string | undefined): { readonly agent?: string } {
    const agent = this.resolveAgent(named);
    return agent === undefined ? {} : { agent };
  }

  async loadAgent(id: string): Promise<SavedAgent<unknown>> {
    const found = this.owns(id) ? await this.sp.agents.load<unknown>(id) : undefined;
    if (!found) throw agentNotFound(id);
    return found;
  }

  async loadConversation(id: string, options: LoadConversationOptions): Promise<Conversation<unknown>> {
    // Without messages first: that a message is damaged must not tell others that there is one.
    if (this.agent !== undefined && options.at === undefined) await this.#loadOwn(id, { limit: 0 });
    if (this.agent !== undefined && options.at !== undefined) await this.resolveCheckpointId(options.at);
    return this.#loadOwn(id, options);
  }

  async #loadOwn(id: string, options: LoadConversationOptions): Promise<Conversation<unknown>> {
    const found = await this.sp.conversations.load<unknown>(id, options);
    if (!found || !this.owns(found.agent)) throw conversationNotFound(id);
    return found;
  }

  async loadSession(id: string): Promise<SessionInfo> {
    const found = await this.#unlessForeign(
      () => this.sp.sessions.load(id),
      () => this.#listsSession(id),
    );
    if (!found || !this.owns(found.agent)) throw sessionNotFound(id);
    return found;
  }

  /**
   * A handle on a session. Where all is confined it has looked already: should the session be deleted and made again by
   * another agent meanwhile, the handle is refused instead of reaching that. One on a session that is only to begin has
   * seen nothing: whoever loads with it asks again whose that is.
   */
  async openSession(
    id: string,
    { begin = false, ...options }: SessionOptions & { begin?: boolean } = {},
  ): Promise<Session> {
    const session = this.sp.session(id, { ...options, ...this.agentFilter(options.agent) });
    if (this.agent === undefined) return session;
    const isOwn = (): Promise<boolean> => this.#listsSession(id);
    for (let looks = 1; ; looks++) {
      const head = await this.#unlessForeign(() => session.head(), isOwn);
      if (head && !this.owns(head.agent)) throw sessionNotFound(id);
      if (head) return session;
      const found = await this.#unlessForeign(() => this.sp.sessions.load(id), isOwn);
      if (found ? !this.owns(found.agent) : !begin) throw sessionNotFound(id);
      // One that has come only now has not been seen by the handle, which would take any other for it. Looking once more
      // is enough: what has no head then is a branch that is not there.
      if (!found?.head || looks > 1) return session;
    }
  }

  /** A checkpoint with its state, by its id or `session#seq`. */
  async loadCheckpoint(id: string): Promise<Checkpoint | AgentCheckpoint> {
    const found = await this.#unlessForeign(
      () => this.sp.checkpoints.load(id),
      () => this.#listsCheckpoint(id),
    );
    if (!found || !this.owns(found.agent)) throw checkpointNotFound(id);
    return found;
  }

  /** The id of a checkpoint that may be changed. One that is damaged can still be named, and deleted. */
  async resolveCheckpointId(id: string): Promise<string> {
    if (this.agent === undefined) return id;
    try {
      return (await this.loadCheckpoint(id)).id;
    } catch (error) {
      if (isSavepointError(error, "DAMAGED")) return id;
      throw error;
    }
  }

  /** That something is damaged is told to its owner alone; for others there is nothing. */
  async #unlessForeign<T>(load: () => Promise<T>, isOwn: () => Promise<boolean>): Promise<T | undefined> {
    try {
      return await load();
    } catch (error) {
      if (this.agent === undefined || !isSavepointError(error, "DAMAGED") || (await isOwn())) throw error;
      return undefined;
    }
  }

  async #listsSession(id: string): Promise<boolean> {
    return this.#lists(this.sp.checkpoints.list(this.agentFilter(undefined)), (info) => info.sessionId === id);
  }

  async #listsCheckpoint(id: string): Promise<boolean> {
    const isMeant = (info: AnyCheckpointInfo): boolean => info.id === id || `${info.sessionId}#${info.seq}` === id;
    return this.#lists(this.sp.checkpoints.list(this.agentFilter(undefined)), isMeant);
  }

  async #lists<T>(list: AsyncIterable<T>, isMeant: (entry: T) => boolean): Promise<boolean> {
    for await (const entry of list) if (isMeant(entry)) return true;
    return false;
  }
}
