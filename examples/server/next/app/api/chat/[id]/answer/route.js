import { openChats } from "../../chats.js";

/** @param {Request} request @param {{ params: Promise<{ id: string }> }} context */
export async function POST(request, { params }) {
  const { id } = await params;
  return (await openChats()).answer(id, await request.json().catch(() => ({})));
}
