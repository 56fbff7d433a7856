/** Conversations, and their messages. */
import { SavepointError } from "../../index.js";
import type { ConversationDetail, ConversationView, Page } from "../api.js";
import { pageOfMessages } from "../data/message-pages.js";
import { omitUndefined } from "../data/views.js";
import { toWire } from "../http/responses.js";
import type { Call, Route } from "../http/router.js";
import type { Services } from "../services.js";
import { parseMessageQuery } from "./messages.js";

const MAX_PAGE = 500;
/** Messages that are read beyond a page, because they may have results of its calls. */
const NEAR = 50;

export function conversationRoutes(services: Services): readonly Route[] {
  return [
    {
      method: "GET",
      path: "/api/conversations",
      query: ["agent", "tag", "archived", "cursor", "limit"],
      run: (call) => listConversations(services, call),
    },
    {
      method: "GET",
      path: "/api/conversations/:id",
      query: ["before", "limit", "maxText"],
      run: (call) => readConversation(services, call),
    },
  ];
}

async function listConversations({ sp, pages }: Services, { query }: Call): Promise<Page<ConversationView>> {
  const filter = omitUndefined({
    agent: query.text("agent"),
    tag: query.text("tag"),
    archived: query.flag("archived"),
  });
  return pages.page(
    JSON.stringify(["conversations", filter]),
    query.text("cursor"),
    query.limit(MAX_PAGE, 100),
    () => sp.conversations.list(filter),
    (info) => toWire(info) as unknown as ConversationView,
  );
}

async function readConversation({ sp }: Services, { params: { id = "" }, query }: Call): Promise<ConversationDetail> {
  const request = parseMessageQuery(query);
  const last = await sp.conversations.load(id, { limit: 1, partial: true });
  if (!last) throw new SavepointError("CONVERSATION_NOT_FOUND", `There is no conversation ${JSON.stringify(id)}.`);
  const end = Math.min(request.before ?? last.messageCount, last.messageCount);
  const [from, to] = [Math.max(0, end - request.limit - NEAR), Math.min(last.messageCount, end + NEAR)];
  const options = { before: to, limit: Math.max(1, to - from), partial: true };
  const { entries, messages: _, first, holes, ...info } = (await sp.conversations.load(id, options)) ?? last;
  const lost = new Set(holes.map(({ index }) => index));
  const indexes = Array.from({ length: to - first }, (__, at) => first + at).filter((index) => !lost.has(index));
  const listed = entries.map(({ id: messageId, timestamp, message }, at) => {
    const index = indexes[at] ?? first + at;
    return { index, path: `/${index}`, message, id: messageId, timestamp };
  });
  return {
    conversation: toWire(info) as unknown as ConversationView,
    messages: pageOfMessages("", listed, info.messageCount, { ...request, before: end }),
    holes,
  };
}
