import type { Question, Savepoint } from "../../index.js";
import { parseJson } from "../arguments.js";
import { requireSession } from "../checkpoint-lookup.js";
import type { Cli } from "../cli.js";
import { usageError } from "../errors.js";
import { formatTime, quote } from "../format.js";
import { toPrintableJson } from "../json.js";
import { suggestResume } from "../resume-hint.js";
import { sanitize } from "../terminal-text.js";
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
  summary: "answer the question that a session waits for",
  examples: [
    ["savepoint answer order-88", "show the question and type the answer"],
    ["savepoint answer order-88 --text yes", "answer without a prompt"],
    ["savepoint answer order-88 --happened --result '\"receipt 7\"'", "an interrupted tool did happen"],
    ["savepoint answer order-88 --no-happened", "it did not happen: execute it again"],
  ],
  declare(command) {
    command
      .argument("<session>")
      .option("--value <json>", "the answer as JSON", parseJson)
      .option("--text <text>", "the answer as a string")
      .option("--happened", "the interrupted tool did happen")
      .option("--no-happened", "the interrupted tool did not happen")
      .option("--result <json>", "with --happened: what the tool returned", parseJson)
      .option("--question <id>", "the question, if there are several")
      .option("-b, --branch <name>", "the branch (default: main)");
    // Commander sets `happened` to true because of --no-happened. Without either option it stays open.
    command.setOptionValue("happened", undefined);
  },
  async run(cli, [id = ""], options) {
    const sp = await cli.open();
    const { branch, question: questionId } = options;
    const info = await requireSession(sp, id, branch);
    const questions = branch === undefined || branch === "main" ? info.questions : await questionsOf(sp, id, branch);
    const question = questions.find((each) => questionId === undefined || each.id === questionId);
    const answered = answerFrom(options);
    if (options.happened !== undefined && question?.kind === "ask") {
      throw usageError(`The question is not about a tool: ${question.text} Answer it with --value or --text.`);
    }
    if (!answered && !question) {
      if (questions.length > 0) throw usageError(`Session ${quote(id)} has no question ${quote(questionId ?? "")}.`);
      throw usageError(`Session ${quote(id)} waits for no answer: its status is ${info.status}.`);
    }
    const value = answered ? answered.value : await prompt(cli, question as Question);
    await sp.answer(id, value, {
      ...(questionId !== undefined && { question: questionId }),
      ...(branch !== undefined && { branch }),
    });
    await cli.output.result(
      { session: id, question: question?.id, value },
      () => `Answered. The next run of ${id} continues with it.`,
    );
    cli.output.note(`To resume, ${suggestResume(cli)}`);
  },
});

/** The questions of a branch other than main. Its status is the first event of `watch`. */
async function questionsOf(sp: Savepoint, id: string, branch: string): Promise<readonly Question[]> {
  for await (const event of sp.watch(id, { branch })) {
    if (event.type === "status") return event.question ? [event.question] : [];
  }
  return [];
}

/** The answer in the options, if there is one. */
function answerFrom({ value, text, happened, result }: Options): { value: unknown } | undefined {
  const answers = [value, text, happened].filter((each) => each !== undefined);
  if (answers.length > 1) throw usageError("Pass only one of --value, --text, --happened and --no-happened.");
  if (result !== undefined && happened !== true) throw usageError("--result needs --happened.");
  if (happened !== undefined) return { value: { happened, ...(result !== undefined && { result }) } };
  if (text !== undefined) return { value: text };
  return value === undefined ? undefined : { value };
}

/** Asks on the terminal. */
async function prompt(cli: Cli, question: Question): Promise<unknown> {
  if (!cli.output.interactive) {
    throw usageError(
      `The session asks: ${question.text} There is no terminal to answer on: pass --value, --text or --happened.`,
    );
  }
  const { isCancel, select, text } = await import("@clack/prompts");
  const [{ stdin: input }, output] = [cli.io, cli.terminal];
  const unlessCancelled = <T>(typed: T): Exclude<T, symbol> => {
    if (isCancel(typed)) cli.interrupt();
    return typed as Exclude<T, symbol>;
  };
  if (question.kind === "unknown") {
    const { call, startedAt } = question;
    if (call) {
      const started = startedAt === undefined ? "" : `, started ${formatTime(startedAt)}`;
      cli.output.note(`${call.name}(${JSON.stringify(toPrintableJson(call.arguments))})${started}`);
    }
    const happened = unlessCancelled(
      await select({
        message: sanitize(question.text),
        input,
        output,
        options: [
          { value: false, label: "It did not happen: execute it again" },
          { value: true, label: "It did happen" },
        ],
      }),
    );
    if (!happened) return { happened };
    const result = unlessCancelled(
      await text({
        message: "What did it return? JSON or a string; empty for nothing.",
        input,
        output,
        defaultValue: "",
      }),
    );
    return result === "" ? { happened } : { happened, result: parseTyped(result) };
  }
  if (question.data !== undefined) cli.output.note(JSON.stringify(toPrintableJson(question.data)));
  return parseTyped(unlessCancelled(await text({ message: sanitize(question.text), input, output, defaultValue: "" })));
}

/** JSON if the text is valid JSON, such as a number, `true` or an object; otherwise the text itself. */
function parseTyped(typed: string): unknown {
  try {
    return JSON.parse(typed) as unknown;
  } catch {
    return typed;
  }
}
