// An assistant with a memory: its state and its conversations are saved, searched and restored.
//
//   node examples/assistant/assistant.mjs
import { message, Savepoint } from "savepoint";

const sp = await Savepoint.open("sqlite::memory:");

await sp.agents.save({ id: "support", name: "Support", type: "gpt-5", state: { solved: 0 } });
const orders = await sp.conversations.create({ agent: "support", tags: ["orders"] });
await sp.conversations.append(orders.id, [
  message.user("Where is order 88? I paid on Tuesday."),
  message.assistant("It left our warehouse this morning."),
]);
const smalltalk = await sp.conversations.create({ agent: "support" });
await sp.conversations.append(smalltalk.id, [message.user("こんにちは世界")]);

for (const text of ["WAREHOUSE", "世界", "refund"]) {
  const hits = await sp.conversations.search(text, { agent: "support" });
  console.log(`search ${text}:`, hits.map((hit) => `${hit.title} → ${hit.snippet}`).join("; ") || "no match");
}

const checkpoint = await sp.checkpoints.create({ agent: "support", label: "before the storm" });
await sp.agents.update("support", { state: { solved: 1 } });
await sp.conversations.append(orders.id, [message.user("THIS IS NOT WHAT I ORDERED")]);
await sp.conversations.create({ agent: "support", title: "An angry one" });

const plan = await sp.checkpoints.restore(checkpoint.id, { dryRun: true });
console.log(`restore would change ${plan.restored.length} conversation and remove ${plan.removed.length}`);
const { before } = await sp.checkpoints.restore(checkpoint.id);
console.log("restored:", await describe());
await sp.checkpoints.restore(before.id);
console.log("undone:", await describe());
await sp.close();

async function describe() {
  const { conversations, messages } = await sp.stats({ agent: "support" });
  const agent = await sp.agents.load("support");
  return `${conversations} conversations, ${messages} messages, ${String(agent?.state["solved"])} solved`;
}
