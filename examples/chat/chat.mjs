// A chat with turns. Each input is a turn of one session. Its key ensures that a message that is delivered twice is answered
// once. Replies are streamed: parts are printed as they arrive, and the complete reply is recorded.
//
//   node examples/chat/chat.mjs
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { defineAgent, Savepoint } from "savepoint";

/** @import { Message } from "savepoint" */

const friend = defineAgent({
  name: "friend",
  initial: (/** @type {string} */ text) => ({ messages: [user(text)] }),
  // Called with every input after the first.
  receive(state, text) {
    state.messages.push(user(text));
  },
  async step(run) {
    const reply = await run.llm(() => speak(run.state.messages));
    run.state.messages.push({ role: "assistant", content: reply });
    return run.complete(reply);
  },
});

/** A scripted model that streams its reply word by word. @param {readonly Message[]} messages */
async function* speak(messages) {
  const said = messages.filter(({ role }) => role === "user").map(({ content }) => String(content));
  const name = said[0]?.replace("I am ", "").replace(".", "");
  const text = said.length === 1 ? `Hello ${name}, how are you?` : `You have told me ${said.length} things, ${name}.`;
  for (const word of text.split(/(?<= )/)) {
    await pause(30);
    yield word;
  }
}

/** @param {string} content @returns {Message} */
function user(content) {
  return { role: "user", content };
}

const folder = mkdtempSync(join(tmpdir(), "savepoint-chat-"));
const url = `sqlite:${join(folder, "agents.db")}`;
try {
  // Messages as a queue delivers them: the second one is delivered twice.
  for (const [key, text] of /** @type {const} */ ([
    ["m1", "I am Ada."],
    ["m2", "I write programs."],
    ["m2", "I write programs."],
    ["m3", "For machines that do not exist yet."],
  ])) {
    // Opened again for each message, as another process would: nothing is kept in memory.
    const sp = await Savepoint.open(url);
    console.log(`> ${text} (${key})`);
    let live = false;
    sp.on("run", (event) => {
      if (event.type !== "delta") return;
      live = true;
      process.stdout.write(String(event.delta));
    });
    const result = await sp.run(friend, { session: "ada", input: text, key });
    if (result.status !== "completed") console.log(`(${result.status}: ${result.reason ?? result.question?.text})`);
    else console.log(live ? "" : `(replayed: ${result.output})`);
    console.log(`  ${result.state.messages.length} messages in the session`);
    await sp.close();
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
