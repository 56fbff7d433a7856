import type { Question, Savepoint, SessionInfo } from "../../index.js";
import type { Cli } from "../cli.js";
import { usageError } from "../errors.js";
import { quote, requireBranch, requireSession } from "../checkpoint-lookup.js";
import { toPrintableJson } from "../json.js";
import { sanitize, formatTime } from "../terminal-text.js";
import { parseJson } from "../arguments.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly value?: unknown;
  readonly text?: string;
  readonly happened?: boolean;
  readonly result?: unknown;
  readonly question?: string;
  readonly branch?: string;
}

export const answer = defineVerb<Options>({
  name: "answer",
  group: "Run",
  summary: "answer what a session waits to be told; whoever runs it next goes on",
  examples: [
    ["savepoint answer order-88", "shows what it asks, and asks you"],
    ["savepoint answer order-88 --text yes", "without being asked"],
    ["savepoint answer order-88 --happened --result '\"receipt 7\"'", "of an interrupted tool: it did happen"],
    ["savepoint answer order-88 --no-happened", "it did not: it is done again"],
  ],
  declare(command) {
    command
      .argument("<session>")
      .option("--value <json>", "the answer, as JSON", parseJson)
      .option("--text <text>", "the answer, as a text")
      .option("--happened", "an interrupted tool did happen")
      .option("--no-happened", "an interrupted tool did not happen")
      .option("--result <json>", "what the tool returned, where it happened", parseJson)
      .option("--question <id>", "which question, where it asks several")
      .option("-b, --branch <name>", "another branch than main");
    // Without either, nothing is said about it.
    command.setOptionValue("happened", undefined);
  },
  async run(cli, [id = ""], options) {
    const sp = await cli.open();
    await requireSession(sp, id);
    const { branch, question: wanted } = options;
    await requireBranch(sp, id, branch);
    const info = (await sp.sessions.load(id)) as SessionInfo;
    const questions = branch === undefined || branch === "main" ? info.questions : await questionsOf(sp, id, branch);
    const question = questions.find((each) => wanted === undefined || each.id === wanted);
    const given = valueOf(options);
    if (options.happened !== undefined && question?.kind === "ask") {
      throw usageError(`It asks: ${sanitize(question.text)} That is about no tool: answer with --value or --text.`);
    }
    if (!given && !question) {
      if (questions.length > 0)
        throw usageError(`Session ${quote(id)} asks nothing that is called ${quote(wanted ?? "")}.`);
      throw usageError(`Session ${quote(id)} asks nothing: it is ${info.status}.`);
    }
    const value = given ? given.value : await ask(cli, question as Question);
    const where = { ...(wanted !== undefined && { question: wanted }), ...(branch !== undefined && { branch }) };
    await sp.answer(id, value, where);
    await cli.output.result(
      { session: id, question: question?.id, value },
      () => `Answered. Whoever runs ${sanitize(id)} next goes on.`,
    );
    cli.output.note("Go on with: savepoint recover --agents ./agents.mjs");
  },
});

/** What another branch than main asks: how it stands is told first. */
async function questionsOf(sp: Savepoint, id: string, branch: string): Promise<readonly Question[]> {
  for await (const event of sp.watch(id, { branch })) {
    if (event.type === "status") return event.question ? [event.question] : [];
  }
  return [];
}

function valueOf({ value, text, happened, result }: Options): { value: unknown } | undefined {
  const given = [value, text, happened].filter((each) => each !== undefined);
  if (given.length > 1) throw usageError("Give one answer: --value, --text, --happened or --no-happened.");
  if (result !== undefined && happened !== true)
    throw usageError("--result says what a tool returned: it needs --happened.");
  if (happened !== undefined) return { value: { happened, ...(result !== undefined && { result }) } };
  if (text !== undefined) return { value: text };
  return value === undefined ? undefined : { value };
}

/** Asks whoever sits there. */
async function ask(cli: Cli, question: Question): Promise<unknown> {
  if (!cli.output.interactive) {
    throw usageError(
      `It asks: ${sanitize(question.text)} Nobody can be asked here: answer with --value, --text or --happened.`,
    );
  }
  const { isCancel, select, text } = await import("@clack/prompts");
  const { stdin: input, stderr: output } = cli.io;
  const stop = <T>(said: T): Exclude<T, symbol> => {
    if (isCancel(said)) cli.interrupt();
    return said as Exclude<T, symbol>;
  };
  if (question.kind === "unknown") {
    const { call, startedAt } = question;
    if (call)
      cli.output.note(
        `${sanitize(call.name)}(${sanitize(JSON.stringify(toPrintableJson(call.arguments)))})${startedAt === undefined ? "" : `, begun ${formatTime(startedAt)}`}`,
      );
    const happened = stop(
      await select({
        message: sanitize(question.text),
        input,
        output,
        options: [
          { value: false, label: "It did not happen: do it again" },
          { value: true, label: "It did happen" },
        ],
      }),
    );
    if (!happened) return { happened };
    const result = stop(
      await text({
        message: "What did it return? JSON, or a text; empty for nothing.",
        input,
        output,
        defaultValue: "",
      }),
    );
    return result === "" ? { happened } : { happened, result: jsonOrText(result) };
  }
  if (question.data !== undefined) cli.output.note(sanitize(JSON.stringify(toPrintableJson(question.data))));
  return jsonOrText(stop(await text({ message: sanitize(question.text), input, output, defaultValue: "" })));
}

/** What people type is mostly a text; a number, true, or something in brackets is what it looks like. */
function jsonOrText(typed: string): unknown {
  try {
    return JSON.parse(typed) as unknown;
  } catch {
    return typed;
  }
}
