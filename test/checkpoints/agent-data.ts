/** Helpers for tests of whole-agent checkpoints: an agent with conversations, and all data of an agent as one value. */
import { type AgentToSave, type Conversation, message, type OpenOptions, Savepoint } from "../../src/index.js";
import { until } from "../support/until.mjs";

export const AGENT = "agent-1";

/** Test files need not survive a power cut. */
export const FAST: OpenOptions = { durability: "process" };

export async function saveAgent(sp: Savepoint, counter: number, more: Partial<AgentToSave> = {}): Promise<void> {
  await sp.agents.save({ id: AGENT, name: "Test", state: { counter }, ...more });
}

export async function talk(sp: Savepoint, id: string, ...texts: string[]): Promise<void> {
  await sp.conversations.append(
    id,
    texts.map((text) => message.user(text)),
  );
}

/** Makes a conversation of the agent. */
export async function begin(sp: Savepoint, id: string, ...texts: string[]): Promise<void> {
  await sp.conversations.create({ id, agent: AGENT, messages: texts.map((text) => message.user(text)) });
}

export async function texts(sp: Savepoint, id: string, at?: string): Promise<string[] | undefined> {
  const loaded = await sp.conversations.load(id, at === undefined ? {} : { at });
  return loaded?.messages.map(({ content }) => content);
}

/** All data of an agent and its conversations, except what a restore must not bring back: version and time of change. */
export interface Everything {
  readonly agent: Record<string, unknown> | undefined;
  readonly conversations: Record<string, Conversation>;
}

export async function everythingOf(sp: Savepoint, agent = AGENT): Promise<Everything> {
  const conversations: Record<string, Conversation> = {};
  for await (const { id } of sp.conversations.list({ agent })) {
    const loaded = await sp.conversations.load(id);
    if (loaded) conversations[id] = loaded;
  }
  const loaded = await sp.agents.load(agent);
  if (!loaded) return { agent: undefined, conversations };
  const { version: _version, modifiedAt: _modifiedAt, activeConversations, ...rest } = loaded;
  return { agent: { ...rest, active: activeConversations.slice().sort() }, conversations };
}

/** The ids of checkpoints, as a listing gives them. */
export async function idsIn(listing: AsyncIterable<{ readonly id: string }>): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of listing) ids.push(id);
  return ids;
}

/** A clock that throws when it is read too often, so that an endless loop ends. */
export function patientClock(questions = 150): () => number {
  let asked = 0;
  return () => {
    if (++asked > questions) throw new Error("It went on and on.");
    return Date.now();
  };
}

/**
 * Resolves when a timer of automatic checkpoints with this interval has come round several times, on a store of its own: by
 * then another timer with the same interval has come round too.
 */
export async function passIntervals(interval: number): Promise<void> {
  await using sp = await Savepoint.open("memory:");
  let rounds = 0;
  await sp.autoCheckpoints.set({ session: "witness" }, { interval });
  await sp.autoCheckpoints.start({ session: sp.session("witness"), state: () => ++rounds });
  await until(() => rounds >= 4, "a timer to come round");
}
