// LangGraph's long-term memory: all threads know what one thread has learned, also in other processes.
//
//   node memory.mjs            runs all of it in a temporary folder, each message in a process of its own
//   node memory.mjs "message"  one message, with the store in the working folder
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { Savepoint } from "savepoint";
import { SavepointSaver, SavepointStore } from "savepoint/langgraph";

const ADA = ["users", "ada"];

// A stand-in for an embeddings model: how often each letter occurs. Use `new OpenAIEmbeddings()` in its place.
const embed = (/** @type {string} */ text) =>
  Array.from({ length: 26 }, (_, n) => text.toLowerCase().split(String.fromCharCode(97 + n)).length - 1);
const embeddings = {
  embedQuery: async (/** @type {string} */ text) => embed(text),
  embedDocuments: async (/** @type {string[]} */ texts) => texts.map(embed),
};

const State = Annotation.Root({ message: Annotation, reply: Annotation });

/** Remembers what begins with "I", and answers everything else with the memory that fits best. */
const graphOf = (/** @type {Savepoint} */ sp, /** @type {SavepointStore} */ store) =>
  new StateGraph(State)
    .addNode("answer", async ({ message }, { store: memory }) => {
      const text = String(message);
      if (text.startsWith("I ")) {
        await memory?.put(ADA, text.slice(0, 12), { text });
        return { reply: "I will remember that." };
      }
      const [best] = (await memory?.search(ADA, { query: text, limit: 1 })) ?? [];
      return { reply: best ? `You told me: ${best.value.text}` : "I know nothing about you." };
    })
    .addEdge(START, "answer")
    .addEdge("answer", END)
    .compile({ checkpointer: new SavepointSaver(sp), store });

/** One message, in a thread of its own. @param {string} message */
async function say(message) {
  const sp = await Savepoint.open("sqlite:./memory.db");
  const store = new SavepointStore(sp, { index: { dims: 26, embeddings, fields: ["text"] } });
  const thread_id = `thread-${Date.now()}`;
  const { reply } = await graphOf(sp, store).invoke({ message }, { configurable: { thread_id } });
  console.log(`  ${message}\n    ${String(reply)}`);
  if (message.startsWith("I ")) process.kill(process.pid, "SIGKILL"); // a put is durable when it resolves
  await sp.close();
}

/** What is stored, and how a memory is undone. @param {string} url */
async function review(url) {
  const sp = await Savepoint.open(url);
  const session = new SavepointStore(sp).session(ADA);
  const [hit] = await sp.search("night trains");
  console.log(`found in ${hit?.id} at ${hit?.path}`);
  await session.rewind({ seq: 0 });
  console.log(
    `after a rewind: ${(await session.latest())?.state.pages
      .flat()
      .map(({ key }) => key)
      .join(", ")}`,
  );
  await sp.close();
}

const [message] = process.argv.slice(2);
if (message !== undefined) await say(message);
else {
  const cwd = mkdtempSync(join(tmpdir(), "savepoint-memory-"));
  const work = (/** @type {string} */ text) =>
    spawnSync(process.execPath, [fileURLToPath(import.meta.url), text], { cwd, stdio: "inherit" });
  for (const text of ["I like dried figs.", "I take night trains.", "trains at night?"]) work(text);
  await review(`sqlite:${join(cwd, "memory.db")}`);
  rmSync(cwd, { recursive: true });
}
