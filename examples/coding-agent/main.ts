// The command line of the agent.
//
//   node main.ts "Write a function that adds two numbers, with a test."     starts a task
//   node main.ts                                                            resumes the newest unfinished task
//   node main.ts --resume                                                   resumes it even if it has failed or was halted
import { mkdirSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { parseArgs } from "node:util";
import { type Question, Savepoint } from "savepoint";
import { coder } from "./agent.ts";
import { WORKSPACE } from "./tools.ts";

mkdirSync(WORKSPACE, { recursive: true });
const sp = await Savepoint.open();
const { values, positionals } = parseArgs({ options: { resume: { type: "boolean" } }, allowPositionals: true });
process.exitCode = await main(positionals.join(" "), values.resume ?? false);
await sp.close();

async function main(task: string, resume: boolean): Promise<number> {
  const session = task ? await nameSession() : await findUnfinished();
  if (!session) {
    console.error('There is no unfinished task. Start one: node main.ts "Write a function that …"');
    return 2;
  }
  console.log(`${session}, in ${WORKSPACE} (process ${process.pid})`);

  let result = await sp.run(coder, task ? { session, input: task } : { session, resume });
  while (result.status === "waiting" && result.question) {
    const answer = await ask(result.question);
    if (answer === undefined) {
      console.log(
        `\n${result.question.text}\nAnswer with "npx savepoint answer ${session}", then run "node main.ts" again.`,
      );
      return 0;
    }
    await sp.answer(session, answer);
    result = await sp.run(coder, { session });
  }
  if (result.status === "completed") return 0;
  console.error(`${result.status}: ${result.reason}\nTo resume, run "node main.ts --resume".`);
  return 1;
}

/** A name for a new task: task-1, task-2, … */
async function nameSession(): Promise<string> {
  let number = 1;
  while (await sp.sessions.load(`task-${number}`)) number++;
  return `task-${number}`;
}

async function findUnfinished(): Promise<string | undefined> {
  for await (const { id, status } of sp.sessions.list({ agent: coder.name })) {
    if (status !== "completed") return id;
  }
  return undefined;
}

/** Asks the user, and returns the answer; `undefined` without a terminal. */
async function ask({ kind, text, call }: Question): Promise<unknown> {
  if (!process.stdin.isTTY) return undefined;
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  // Ctrl-C ends the process here. The question is stored, and the next start asks it again.
  terminal.on("SIGINT", () => process.exit(130));
  try {
    console.log();
    if (kind === "ask") {
      const answer = await terminal.question(`${text} (yes, or what to do instead) `);
      return /^y(es)?$/i.test(answer.trim()) ? "yes" : answer || "no";
    }
    // The process died while the tool ran. What the tool has done is unknown.
    console.log(`This was interrupted: ${call?.name} ${JSON.stringify(call?.arguments)}`);
    const again = await terminal.question("Run it again? (yes or no) ");
    if (/^y(es)?$/i.test(again.trim())) return { happened: false };
    return { happened: true, result: "It was interrupted. Its output is unknown." };
  } finally {
    terminal.close();
  }
}
