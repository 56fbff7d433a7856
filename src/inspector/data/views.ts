/** What the library returns, in the form in which the API sends it. */
import type { BranchInfo, CheckpointInfo, Question, QueuedRun, SessionInfo } from "../../index.js";
import type { BranchView, CheckpointView, QuestionView, QueueView, SessionRow } from "../api.js";
import { toWire } from "../http/responses.js";

/** Longer texts in lists are cut. */
const MAX_LINE = 300;

export function toSessionRow(info: SessionInfo): SessionRow {
  const { id, agent, status, reason, createdAt, updatedAt, questions, wakeAt, checkpoints, head } = info;
  const [question] = questions;
  return omitUndefined({
    id,
    agent,
    status,
    reason: reason === undefined ? undefined : cut(reason, MAX_LINE),
    createdAt,
    updatedAt,
    steps: head?.step ?? 0,
    tokens: head?.usage?.tokens,
    cost: head?.usage?.cost,
    checkpoints,
    stateBytes: head?.stateBytes ?? 0,
    label: head?.label === undefined ? undefined : cut(head.label, MAX_LINE),
    questions: questions.length,
    question: question && cut(question.text, MAX_LINE),
    questionKind: question?.kind,
    wakeAt,
  });
}

export function toCheckpointView(info: CheckpointInfo): CheckpointView {
  return toWire(info) as unknown as CheckpointView;
}

export function toQuestionView(question: Question): QuestionView {
  return toWire(question) as unknown as QuestionView;
}

export function toQueueView(run: QueuedRun): QueueView {
  return toWire(run) as unknown as QueueView;
}

export function toBranchView({ name, createdAt, forkedFrom, head }: BranchInfo): BranchView {
  return omitUndefined({
    name,
    createdAt,
    forkedFrom,
    head: head?.seq,
    headId: head?.id,
    status: head?.status,
    updatedAt: head?.createdAt,
  });
}

/** Cuts a text, not inside a surrogate pair. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  const code = text.charCodeAt(length - 1);
  return `${text.slice(0, code >= 0xd800 && code <= 0xdbff ? length - 1 : length)}…`;
}

type Defined<Fields> = {
  [Name in keyof Fields as undefined extends Fields[Name] ? never : Name]: Fields[Name];
} & { [Name in keyof Fields as undefined extends Fields[Name] ? Name : never]?: Exclude<Fields[Name], undefined> };

/** The object without the fields that are `undefined`. */
export function omitUndefined<Fields extends object>(fields: Fields): Defined<Fields> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<Fields>;
}
