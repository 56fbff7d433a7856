// A scripted model, and two tools that print what they do.

/** @import { Message } from "savepoint" */

/** @param {readonly Message[]} messages @returns {Promise<Message>} */
export async function model(messages) {
  const answers = messages.filter(({ role }) => role === "tool").length;
  console.log(`  model call with ${messages.length} message${messages.length === 1 ? "" : "s"}`);
  // The process dies during the second model call. The flight is booked, and the hotel is not.
  if (answers === 1 && process.env["DIE"]) process.kill(process.pid, "SIGKILL");
  const call = [
    { id: "call-1", name: "flight" },
    { id: "call-2", name: "hotel" },
  ][answers];
  if (!call) return { role: "assistant", content: "You fly on Monday and stay in Alfama." };
  return { role: "assistant", content: `I book the ${call.name}.`, toolCalls: [call] };
}

/** @type {Record<string, () => Promise<string>>} */
export const books = {
  async flight() {
    console.log("  BOOKED a flight");
    return "flight TP 571";
  },
  async hotel() {
    console.log("  BOOKED a hotel");
    return "Hotel Alfama";
  },
};
