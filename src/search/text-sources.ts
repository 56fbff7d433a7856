/** The names under which the search index has the texts of a session, a conversation or an agent. */
import type { Context } from "../context.js";
import { decodeConversationListing, readWithFallback } from "../conversations/index.js";
import {
  branchesOf,
  conversationKey,
  conversationNumberKey,
  conversationsOf,
  sessionNumberKey,
  sessionsOfAgent,
  trailingNumberOf,
} from "../records/index.js";
import { scan } from "../store/index.js";

/** The owner of the texts. */
export interface TextOwner {
  readonly kind: "session" | "conversation" | "agent";
  readonly id: string;
}

/** The name of the source for the title of a conversation. The source for its messages has the key of the conversation. */
export const titleSource = (id: string): string => `${conversationKey(id)}\ttitle`;

/** The names of all sources of an owner. Sessions have one for each branch; an agent has those of its sessions and conversations. */
export async function listTextSources(context: Context, { kind, id }: TextOwner): Promise<string[]> {
  if (kind === "conversation") return [conversationKey(id), titleSource(id)];
  if (kind === "session") return listBranches(context, id);
  const names: string[] = [];
  for await (const record of scan(context.store, sessionsOfAgent(id))) {
    const session = await readWithFallback(context.store, record, sessionNumberKey(trailingNumberOf(record.key)));
    if (session !== undefined) names.push(...(await listBranches(context, session)));
  }
  for await (const record of scan(context.store, conversationsOf(id))) {
    const value = await readWithFallback(context.store, record, conversationNumberKey(trailingNumberOf(record.key)));
    if (value === undefined) continue;
    const conversation = decodeConversationListing(value).id;
    names.push(conversationKey(conversation), titleSource(conversation));
  }
  return names;
}

async function listBranches({ store }: Context, session: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { key } of scan(store, branchesOf(session))) names.push(key);
  return names;
}
