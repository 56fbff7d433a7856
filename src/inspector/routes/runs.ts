/** Writes that settle what a run waits for: answers, cancels, resumes, and results of tool calls. */
import { fromJson, SavepointError, type Status, type ToolCallResolution } from "../../index.js";
import type { AnswerRequest, CancelRequest, Done, ResumeRequest, ToolCallsRequest } from "../api.js";
import { sessionNotFound } from "../data/state-cache.js";
import { omitUndefined } from "../data/views.js";
import { badRequest } from "../http/errors.js";
import { anything, boolean, object, optional, readFields, string } from "../http/input.js";
import type { Call, Route } from "../http/router.js";
import type { Services } from "../services.js";

export function runRoutes(services: Services): readonly Route[] {
  const write = (path: string, run: (services: Services, call: Call) => Promise<Done>): Route => ({
    method: "POST",
    path: `/api/sessions/:id/${path}`,
    write: true,
    async run(call) {
      const result = await run(services, call);
      await services.changed(call.params["id"] ?? "");
      return result;
    },
  });
  return [write("answer", answer), write("cancel", cancel), write("resume", resume), write("tool-calls", resolveCalls)];
}

async function answer({ sp }: Services, { params: { id = "" }, body }: Call): Promise<Done> {
  const fields = readFields<Record<keyof AnswerRequest, unknown>>(await body(), {
    question: optional(string),
    branch: optional(string),
    value: anything,
    happened: optional(boolean),
    result: anything,
    failed: optional(string),
  });
  const { question, branch, value, happened, result, failed } = fields;
  if ([value, happened, failed].filter((each) => each !== undefined).length !== 1) {
    throw badRequest("Pass one of `value`, `happened` and `failed`.");
  }
  if (result !== undefined && happened !== true) throw badRequest("`result` needs `happened: true`.");
  const info = await sp.sessions.load(id, omitUndefined({ branch: branch as string | undefined }));
  if (!info) throw sessionNotFound(id);
  const open = info.questions.find((each) => question === undefined || each.id === question);
  if (open && (open.kind === "ask") !== (value !== undefined)) {
    const expected =
      open.kind === "ask" ? "`value`" : "`happened` or `failed`: whether the tool call happened is unknown";
    throw badRequest(`Answer the question ${JSON.stringify(open.id)} with ${expected}.`);
  }
  const given =
    value !== undefined
      ? fromJson(value)
      : omitUndefined({ happened, failed, result: result === undefined ? undefined : fromJson(result) });
  await sp.answer(id, given, omitUndefined({ question, branch }) as { question?: string; branch?: string });
  return { done: true };
}

async function cancel({ sp }: Services, { params: { id = "" }, body }: Call): Promise<Done> {
  const { branch, reason } = readFields<Record<keyof CancelRequest, string | undefined>>(await body(), {
    branch: optional(string),
    reason: optional(string),
  });
  if (!(await sp.sessions.load(id))) throw sessionNotFound(id);
  return { done: await sp.cancel(id, reason, omitUndefined({ branch })) };
}

async function resume({ sp }: Services, { params: { id = "" }, body }: Call): Promise<Done> {
  const { branch } = readFields<Record<keyof ResumeRequest, string | undefined>>(await body(), {
    branch: optional(string),
  });
  return { done: await sp.requeue(id, omitUndefined({ branch })) };
}

/** Statuses of sessions without a run, or whose run has ended. The calls of other sessions belong to their run. */
const IDLE: readonly Status[] = ["open", "completed", "failed"];

async function resolveCalls({ sp }: Services, { params: { id = "" }, body }: Call): Promise<Done> {
  const { branch, resolution } = readFields<{ branch: string | undefined; resolution: ToolCallResolution }>(
    await body(),
    {
      branch: optional(string),
      resolution: (value: unknown, name: string): ToolCallResolution =>
        value === "drop" ? value : (fromJson(object(value, name)) as ToolCallResolution),
    } satisfies Record<keyof ToolCallsRequest, unknown>,
  );
  const info = await sp.sessions.load(id, omitUndefined({ branch }));
  if (!info) throw sessionNotFound(id);
  if (!IDLE.includes(info.status)) {
    throw new SavepointError(
      "CONFLICT",
      `The tool calls of session ${JSON.stringify(id)} belong to its run, which is ${info.status}: answer or resume the run.`,
    );
  }
  const head = await sp.session(id, omitUndefined({ branch })).resolveToolCalls(resolution, { trigger: "inspector" });
  return { done: head.id !== info.head?.id };
}
