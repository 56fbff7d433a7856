import { openChats } from "../chats.js";

/** @param {Request} _request @param {{ params: Promise<{ id: string }> }} context */
export async function GET(_request, { params }) {
  const { id } = await params;
  return (await openChats()).show(id);
}
