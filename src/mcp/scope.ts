/**
 * What a server may read and change: the whole store, or what belongs to one agent.
 *
 * Tools and resources read through a scope only. Ownership is decided by what was loaded and never by what the caller
 * claims. What belongs to another agent, or to none, is reported as missing.
 */
import {
  type AgentCheckpoint,
  type AnyCheckpointInfo,
  type Checkpoint,
  type Conversation,
  isSavepointError,
  type LoadConversationOptions,
  type SavedAgent,
  type SavedAgentInfo,
  type Savepoint,
  type Session,
  type SessionInfo,
  type SessionOptions,
} from "../index.js";
import { agentNotFound, checkpointNotFound, conversationNotFound, sessionNotFound } from "./errors.js";
import { omitUndefined } from "./omit-undefined.js";

export class AgentScope {
  readonly sp: Savepoint;
  /** The agent that the server is confined to. */
  readonly agent: string | undefined;
  /** The project that the server works for. It selects, and protects nothing: a caller may name sessions of others. */
  readonly project: string;

  constructor(sp: Savepoint, agent: string | undefined, project: string) {
    this.sp = sp;
    this.agent = agent;
    this.project = project;
  }

  /** Whether what belongs to this agent, or to none, may be read and changed. */
  owns(owner: string | undefined): boolean {
    return this.agent === undefined || owner === this.agent;
  }

  /**
   * The agent to use if a caller names this one, or none.
   * @throws `AGENT_NOT_FOUND` for an agent outside of the scope
   */
  resolveAgent(name: string | undefined): string | undefined {
    if (name !== undefined && !this.owns(name)) throw agentNotFound(name);
    return name ?? this.agent;
  }

  /** {@link resolveAgent} as a filter of a list. */
  agentFilter(name?: string): { readonly agent?: string } {
    return omitUndefined({ agent: this.resolveAgent(name) });
  }

  /** The agents in the scope. */
  async *listAgents(): AsyncGenerator<SavedAgentInfo> {
    if (this.agent === undefined) yield* this.sp.agents.list();
    else {
      const own = await this.sp.agents.load(this.agent);
      if (own) yield own;
    }
  }

  async loadAgent(id: string): Promise<SavedAgent<unknown>> {
    const agent = this.owns(id) ? await this.sp.agents.load<unknown>(id) : undefined;
    if (!agent) throw agentNotFound(id);
    return agent;
  }

  async loadConversation(id: string, options: LoadConversationOptions): Promise<Conversation<unknown>> {
    // First without messages: an error about a damaged message would reveal a conversation of another agent.
    if (this.agent !== undefined && options.at === undefined) await this.#loadOwnConversation(id, { limit: 0 });
    if (this.agent !== undefined && options.at !== undefined) await this.resolveCheckpointId(options.at);
    return this.#loadOwnConversation(id, options);
  }

  async #loadOwnConversation(id: string, options: LoadConversationOptions): Promise<Conversation<unknown>> {
    const conversation = await this.sp.conversations.load<unknown>(id, options);
    if (!conversation || !this.owns(conversation.agent)) throw conversationNotFound(id);
    return conversation;
  }

  async loadSession(id: string): Promise<SessionInfo> {
    const session = await this.#hideForeignDamage(
      () => this.sp.sessions.load(id),
      () => this.#ownsSession(id),
    );
    if (!session || !this.owns(session.agent)) throw sessionNotFound(id);
    return session;
  }

  /**
   * A handle on a session. In a confined scope the handle has already read the head: if the session is deleted and
   * created again by another agent in the meantime, the store rejects the handle. With `create`, the handle of a session
   * that does not exist yet has read nothing, so callers must check the owner of what they load with it.
   */
  async openSession(
    id: string,
    { create = false, ...options }: SessionOptions & { create?: boolean } = {},
  ): Promise<Session> {
    const session = this.sp.session(id, { ...options, ...this.agentFilter(options.agent) });
    if (this.agent === undefined) return session;
    const isOwn = (): Promise<boolean> => this.#ownsSession(id);
    for (let attempt = 1; ; attempt++) {
      const head = await this.#hideForeignDamage(() => session.head(), isOwn);
      if (head && !this.owns(head.agent)) throw sessionNotFound(id);
      if (head) return session;
      const info = await this.#hideForeignDamage(() => this.sp.sessions.load(id), isOwn);
      if (info ? !this.owns(info.agent) : !create) throw sessionNotFound(id);
      // A session that was created after the handle read its head is read a second time, so that the handle is bound to
      // it. If there is no head then, the branch does not exist.
      if (!info?.head || attempt > 1) return session;
    }
  }

  /** Loads a checkpoint with its state by its id or `session#seq`. */
  async loadCheckpoint(id: string): Promise<Checkpoint | AgentCheckpoint> {
    const checkpoint = await this.#hideForeignDamage(
      () => this.sp.checkpoints.load(id),
      () => this.#ownsCheckpoint(id),
    );
    if (!checkpoint || !this.owns(checkpoint.agent)) throw checkpointNotFound(id);
    return checkpoint;
  }

  /** The id of a checkpoint that may be changed. A damaged checkpoint can still be named and deleted. */
  async resolveCheckpointId(id: string): Promise<string> {
    if (this.agent === undefined) return id;
    try {
      return (await this.loadCheckpoint(id)).id;
    } catch (error) {
      if (isSavepointError(error, "DAMAGED")) return id;
      throw error;
    }
  }

  /** Reports damage to the owner only. To others, damaged things do not exist. */
  async #hideForeignDamage<T>(load: () => Promise<T>, isOwn: () => Promise<boolean>): Promise<T | undefined> {
    try {
      return await load();
    } catch (error) {
      if (this.agent === undefined || !isSavepointError(error, "DAMAGED") || (await isOwn())) throw error;
      return undefined;
    }
  }

  #ownsSession(id: string): Promise<boolean> {
    return this.#ownsAny((info) => info.sessionId === id);
  }

  #ownsCheckpoint(id: string): Promise<boolean> {
    return this.#ownsAny((info) => info.id === id || `${info.sessionId}#${info.seq}` === id);
  }

  /** Searches the checkpoints of the agent, whose list is readable even if a checkpoint itself is damaged. */
  async #ownsAny(matches: (info: AnyCheckpointInfo) => boolean): Promise<boolean> {
    for await (const info of this.sp.checkpoints.list(this.agentFilter())) if (matches(info)) return true;
    return false;
  }
}
