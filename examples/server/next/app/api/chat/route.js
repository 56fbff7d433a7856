import { openChats } from "./chats.js";

/** @import { UIMessage } from "ai" */

/** @param {Request} request */
export async function POST(request) {
  const body = /** @type {{ id?: unknown; messages?: UIMessage[] }} */ (await request.json().catch(() => ({})));
  return (await openChats()).post(body);
}
