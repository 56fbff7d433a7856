// A typical agent loop: call the model, run the tools that it asks for, until it is done. It books a trip. If the process
// dies in the middle (run it with DIE=1), the messages are lost, and the next process books the flight again.
import { books, model } from "./world.mjs";

/** @import { Message } from "savepoint" */

/** @type {Message[]} */
const messages = [{ role: "user", content: "Book me a trip to Lisbon." }];
for (;;) {
  const reply = await model(messages);
  messages.push(reply);
  for (const call of reply.toolCalls ?? []) {
    const result = await books[call.name]?.();
    messages.push({ role: "tool", toolCallId: call.id, content: String(result) });
  }
  if (!reply.toolCalls?.length) {
    console.log(`done: ${reply.content}`);
    break;
  }
}
