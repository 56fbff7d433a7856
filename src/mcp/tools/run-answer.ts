/** The tool that answers a question of a waiting run. */
import { z } from "zod";
import { QUESTION, toQuestion } from "../result-schemas.js";
import { omitUndefined } from "../omit-undefined.js";
import { JSON_VALUE, SESSION } from "./arguments.js";
import { defineTool } from "./tool.js";

export const runAnswer = defineTool({
  name: "run_answer",
  title: "Answer a waiting run",
  description:
    "Answers a question that a run waits for: session_list and session_resume show it in `questions`. Pass on only what the user has decided; never decide for the user. The run continues when its program or a worker resumes it. It cannot be undone. Returns the questions that are still open.",
  input: z.strictObject({
    session: SESSION,
    answer: JSON_VALUE.describe(
      'The answer: any JSON. For a question of kind "unknown": { happened: true, result } or { happened: false }.',
    ),
    question: z.string().optional().describe("The id of the question. Default: the first."),
    branch: z.string().optional().describe("Default: main."),
  }),
  output: z.object({ session: z.string(), status: z.string(), questions: z.array(QUESTION) }),
  writes: true,
  destructive: true,
  async run({ session, answer, question, branch }, scope) {
    // The owner is checked first: others learn nothing about the session.
    await scope.loadSession(session);
    await scope.sp.answer(session, answer, omitUndefined({ question, branch }));
    const { status, questions } = await scope.loadSession(session);
    return { session, status, questions: questions.map(toQuestion) };
  },
});
