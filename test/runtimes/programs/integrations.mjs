// Transcripts of the Claude Agent SDK and LangGraph's checkpoints and long-term memory, in one store.
import assert from "node:assert/strict";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { Savepoint } from "savepoint";
import { SavepointSessionStore } from "savepoint/claude";
import { SavepointSaver, SavepointStore } from "savepoint/langgraph";

const url = process.argv[2] ?? "sqlite:./integrations.db";
{
  const sp = await Savepoint.open(url);
  const transcripts = new SavepointSessionStore(sp);
  const key = { projectKey: "-home-ada-shop", sessionId: "7c1f0a52-0000-4000-8000-000000000001" };
  const entry = (/** @type {string} */ uuid) => ({
    type: "user",
    uuid,
    message: { role: "user", content: `message ${uuid}` },
  });
  await transcripts.append(key, [entry("u1"), entry("u2")]);
  await transcripts.append(key, [entry("u2"), entry("u3")]);
  await Promise.all(Array.from({ length: 10 }, (_, n) => transcripts.append(key, [entry(`p${n}`)])));
  assert.equal((await transcripts.load(key))?.length, 13);

  const memory = new SavepointStore(sp);
  const graph = new StateGraph(
    Annotation.Root({
      reply: Annotation({ reducer: (_before, /** @type {string} */ after) => after, default: () => "" }),
    }),
  )
    .addNode("remember", async (_state, config) => {
      const visits = ((await config.store?.get(["users", "ada"], "visits"))?.value["count"] ?? 0) + 1;
      await config.store?.put(["users", "ada"], "visits", { count: visits });
      return { reply: `visit ${visits}` };
    })
    .addEdge(START, "remember")
    .addEdge("remember", END)
    .compile({ checkpointer: new SavepointSaver(sp), store: memory });
  for (const thread_id of ["t1", "t2"]) await graph.invoke({ reply: "" }, { configurable: { thread_id } });
  await sp.close();
}
const sp = await Savepoint.open(url);
const embed = async (/** @type {string} */ text) => ["a", "z"].map((letter) => text.split(letter).length - 1);
const embeddings = {
  embedQuery: embed,
  embedDocuments: (/** @type {string[]} */ texts) => Promise.all(texts.map(embed)),
};
const memory = new SavepointStore(sp, { index: { dims: 2, embeddings, fields: ["text"] } });
assert.deepEqual((await memory.get(["users", "ada"], "visits"))?.value, { count: 2 });
await memory.put(["notes"], "a", { text: "aaa" });
await memory.put(["notes"], "z", { text: "zzz" });
assert.equal((await memory.search(["notes"], { query: "zz", limit: 1 }))[0]?.key, "z");
assert.deepEqual(await memory.listNamespaces(), [["notes"], ["users", "ada"]]);
assert.equal((await new SavepointSaver(sp).listThreads().all()).length, 2);
await sp.close();
console.log("ok");
