import type { Question, Savepoint, SessionInfo } from "../../index.js";
import { parseJson } from "../arguments.js";
import { requireSession } from "../checkpoint-lookup.js";
import type { Cli } from "../cli.js";
import { usageError } from "../errors.js";
import { formatTime, quote } from "../format.js";
import { toPrintableJson } from "../json.js";
import { ANSWER_THREAD, isThread, suggestResume, suggestResumeOf } from "../resume-hint.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly value?: unknown;
  readonly text?: string;
  readonly happened?: boolean;
  readonly result?: unknown;
  readonly failed?: string;
  readonly question?: string;
  readonly tool?: string;
  readonly dropToolCalls?: boolean;
  readonly branch?: string;
}

export const answer = defineVerb<Options>({
  name: "answer",
  group: "Run",
  summary: "answer the question that a session waits for, or tool calls without a result",
  examples: [
    ["savepoint answer order-88", "show the question and type the answer"],
    ["savepoint answer order-88 --text yes", "answer without a prompt"],
    ["savepoint answer order-88 --happened --result '\"receipt 7\"'", "an interrupted tool did happen"],
    ["savepoint answer order-88 --no-happened", "it did not happen: execute it again"],
    ['savepoint answer order-88 --failed "the card was declined"', "it failed: the agent gets this error"],
    ["savepoint answer chat-7 --tool call_1 --result '\"paid\"'", "give a tool call in saved messages its result"],
    ["savepoint answer chat-7 --drop-tool-calls", "remove the tool calls without a result"],
  ],
  declare(command) {
    command
      .argument("[session]", "the session (default: the only one that waits for an answer)")
      .option("--value <json>", "the answer as JSON", parseJson)
      .option("--text <text>", "the answer as a string")
      .option("--happened", "the interrupted tool did happen")
      .option("--no-happened", "the interrupted tool did not happen")
      .option("--result <json>", "with --happened or --tool: what the tool returned", parseJson)
      .option("--failed <reason>", "the interrupted tool failed: its call throws OUTCOME_UNKNOWN with this reason")
      .option("--tool <id>", "give a tool call in the messages of a session without a run the --result")
      .option(
        "--drop-tool-calls",
        "remove the tool calls without a result from the messages of a session without a run",
      )
      .option("--question <id>", "the question, if there are several")
      .option("-b, --branch <name>", "the branch (default: main)");
    // Commander sets `happened` to true because of --no-happened. Without either option it stays open.
    command.setOptionValue("happened", undefined);
  },
  async run(cli, [given], options) {
    const sp = await cli.open();
    const id = given ?? (await findAsking(sp));
    const { branch, question: questionId } = options;
    const info = await requireSession(sp, id, branch);
    if (options.tool !== undefined || options.dropToolCalls) return resolveCalls(cli, sp, info, options);
    const questions = branch === undefined || branch === "main" ? info.questions : await questionsOf(sp, id, branch);
    const question = questions.find((each) => questionId === undefined || each.id === questionId);
    const answered = answerFrom(options);
    const isOutcome = options.happened !== undefined || options.failed !== undefined;
    if (isOutcome && question?.kind === "ask") {
      throw usageError(`The question is not about a tool: ${question.text} Answer it with --value or --text.`);
    }
    if (!question && info.status === "waiting" && isThread(info)) throw usageError(describeThread(id));
    if (!answered && !question) {
      if (questions.length > 0) throw usageError(`Session ${quote(id)} has no question ${quote(questionId ?? "")}.`);
      throw usageError(await explainNoQuestion(cli, sp, info, branch));
    }
    const typed = answered ?? (await prompt(cli, question as Question));
    if (!typed) {
      await cli.output.result({ session: id, question: question?.id }, () => "Not answered: the session still waits.");
      return;
    }
    const { value } = typed;
    await sp.answer(id, value, {
      ...(questionId !== undefined && { question: questionId }),
      ...(branch !== undefined && { branch }),
    });
    await cli.output.result(
      { session: id, question: question?.id, value },
      () => `Answered. The next run of ${id} continues with it.`,
    );
    cli.output.note(`To resume, ${await suggestResumeOf(cli, sp, id)}`);
  },
});

/** Gives a tool call in the messages of the head its result, or removes all calls without one. */
async function resolveCalls(cli: Cli, sp: Savepoint, { id, status }: SessionInfo, options: Options): Promise<void> {
  const { tool, dropToolCalls = false, result, value, text, happened, failed, question, branch } = options;
  if (dropToolCalls && tool !== undefined) throw usageError("Pass only one of --tool and --drop-tool-calls.");
  if (tool !== undefined && result === undefined) throw usageError("--tool needs --result.");
  if (dropToolCalls && result !== undefined) throw usageError("--drop-tool-calls cannot be combined with --result.");
  if ([value, text, happened, failed, question].some((each) => each !== undefined)) {
    throw usageError("--tool and --drop-tool-calls cannot be combined with the answer to a question.");
  }
  if (!IDLE.includes(status)) {
    throw usageError(`The tool calls of session ${quote(id)} belong to its run, which is ${status}: resume the run.`);
  }
  const session = sp.session(id, branch === undefined ? {} : { branch });
  const before = await session.latest();
  const info = await session.resolveToolCalls(tool === undefined ? "drop" : { [tool]: result });
  const isUnchanged = before?.id === info.id;
  await cli.output.result({ session: id, checkpoint: info.id, seq: info.seq }, () =>
    isUnchanged ? "Every tool call has a result: nothing was changed." : `Saved as checkpoint #${info.seq}.`,
  );
}

/** The only session that asks something. */
async function findAsking(sp: Savepoint): Promise<string> {
  const asking: string[] = [];
  for await (const { id, questions } of sp.sessions.list({ status: "waiting" }))
    if (questions.length > 0) asking.push(id);
  if (asking.length === 1) return asking[0] as string;
  if (asking.length === 0) throw usageError("No session waits for an answer.");
  throw usageError(`Several sessions wait for an answer: ${asking.map(quote).join(", ")}. Pass one of them.`);
}

/** Statuses of sessions without a run, or whose run has ended. */
const IDLE: readonly string[] = ["open", "completed", "failed"];

/** Why there is nothing to answer, and what to do instead. */
async function explainNoQuestion(
  cli: Cli,
  sp: Savepoint,
  info: SessionInfo,
  branch: string | undefined,
): Promise<string> {
  const { id, status } = info;
  const calls = IDLE.includes(status)
    ? ((await sp.session(id, branch === undefined ? {} : { branch }).latest())?.pendingToolCalls ?? [])
    : [];
  if (calls.length === 0) {
    const advice = status === "interrupted" ? ` To resume it, ${suggestResume(cli)}` : "";
    return `Session ${quote(id)} does not wait for an answer: its status is ${status}.${advice}`;
  }
  const names = calls.map(({ id: call, name }) => `${name} (${call})`).join(", ");
  return `Session ${quote(id)} does not wait for an answer, but has tool calls without a result: ${names}. Pass --tool <id> --result <json>, or --drop-tool-calls to remove them.`;
}

function describeThread(id: string): string {
  return `Session ${quote(id)} is a LangGraph thread, so its graph must answer: ${ANSWER_THREAD}.`;
}

/** The questions of a branch other than main. Its status is the first event of `watch`. */
async function questionsOf(sp: Savepoint, id: string, branch: string): Promise<readonly Question[]> {
  for await (const event of sp.watch(id, { branch })) {
    if (event.type === "status") return event.question ? [event.question] : [];
  }
  return [];
}

/** The answer in the options, if there is one. */
function answerFrom({ value, text, happened, result, failed }: Options): { value: unknown } | undefined {
  const answers = [value, text, happened, failed].filter((each) => each !== undefined);
  if (answers.length > 1) {
    throw usageError("Pass only one of --value, --text, --happened, --no-happened and --failed.");
  }
  if (result !== undefined && happened !== true) throw usageError("--result needs --happened.");
  if (happened !== undefined) return { value: { happened, ...(result !== undefined && { result }) } };
  if (failed !== undefined) return { value: { failed } };
  if (text !== undefined) return { value: text };
  return value === undefined ? undefined : { value };
}

/** Asks on the terminal; `undefined` if the person does not want to decide now. */
async function prompt(cli: Cli, question: Question): Promise<{ value: unknown } | undefined> {
  if (!cli.output.interactive) {
    throw usageError(
      `The session asks: ${question.text} There is no terminal to answer on: pass ${question.kind === "unknown" ? "--happened (with --result <json>, if the caller needs what it returned), --no-happened or --failed <reason>" : "--value or --text"}.`,
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
      await cli.ask(
        select({
          message: sanitize(question.text),
          input,
          output,
          options: [
            // The first option is chosen by Enter alone, so it must change nothing.
            { value: undefined, label: "I do not know: ask again later" },
            { value: true, label: "It happened" },
            { value: false, label: "It did not happen: execute it again" },
          ],
        }),
      ),
    );
    if (happened === undefined) return undefined;
    if (!happened) return { value: { happened } };
    const result = unlessCancelled(
      await cli.ask(
        text({
          message: "What did it return? JSON or a string; empty for nothing.",
          input,
          output,
          defaultValue: "",
        }),
      ),
    );
    return { value: { happened, ...(result !== "" && { result: parseTyped(result) }) } };
  }
  if (question.data !== undefined) cli.output.note(JSON.stringify(toPrintableJson(question.data)));
  const typed = unlessCancelled(
    await cli.ask(text({ message: sanitize(question.text), input, output, defaultValue: "" })),
  );
  return { value: parseTyped(typed) };
}

/** JSON if the text is valid JSON, such as a number, `true` or an object; otherwise the text itself. */
function parseTyped(typed: string): unknown {
  try {
    return JSON.parse(typed) as unknown;
  } catch {
    return typed;
  }
}
