/** The messages of a checkpoint. */
import { findMessages } from "../../index.js";
import type { MessagePage } from "../api.js";
import { type MessageQuery, pageOfMessages } from "../data/message-pages.js";
import { refOf } from "../http/input.js";
import type { Call, Route } from "../http/router.js";
import type { Services } from "../services.js";

const MAX_MESSAGES = 500;
const DEFAULT_TEXT = 20_000;
const MAX_TEXT = 1_000_000;

export function messageRoutes({ states }: Services): readonly Route[] {
  return [
    {
      method: "GET",
      path: "/api/sessions/:id/messages",
      query: ["at", "branch", "before", "limit", "maxText"],
      async run({ params: { id = "" }, query }): Promise<MessagePage> {
        const info = await states.info(id, refOf(query), query.text("branch"));
        const { checkpoint } = await states.load(info);
        return messagesOf(checkpoint.state, parseMessageQuery(query)) ?? { pointer: "", total: 0, messages: [] };
      },
    },
  ];
}

/** The query parameters of all routes that return messages. */
export function parseMessageQuery(query: Call["query"]): MessageQuery {
  return {
    before: query.count("before", Number.MAX_SAFE_INTEGER),
    limit: query.limit(MAX_MESSAGES, 100),
    maxText: query.count("maxText", MAX_TEXT) ?? DEFAULT_TEXT,
  };
}

/** A page of the messages in a state; `undefined` if it has none. */
export function messagesOf(state: unknown, query: MessageQuery): MessagePage | undefined {
  const messages = findMessages(state);
  const [first] = messages;
  if (!first) return undefined;
  const pointer = first.path.slice(0, first.path.lastIndexOf("/"));
  return pageOfMessages(pointer, messages, messages.length, query);
}

/** The newest messages, as a part of a checkpoint. */
export const NEWEST_MESSAGES: MessageQuery = { before: undefined, limit: 50, maxText: DEFAULT_TEXT };
