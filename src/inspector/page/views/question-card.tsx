/** An open question, with a form to answer it. */
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import type { AnswerRequest, Done, QuestionView } from "../../api.js";
import { post, sessionPath } from "../api/client.js";
import { canWrite } from "../api/meta.js";
import type { Json } from "../api/types.js";
import { useAction, WriteButton } from "../ui/action.js";
import { Icon } from "../ui/icon.js";
import { JsonTree } from "../ui/json-tree.js";
import { Command } from "../ui/states.js";
import { Time } from "../ui/text.js";
import { showToast } from "../ui/toast.js";
import { readValue, ValueInput, type ValueText } from "./value-input.js";

interface CardProps {
  readonly session: string;
  readonly branch: string;
  readonly question: QuestionView;
  readonly onDone: () => void;
}

export function QuestionCard({ session, branch, question, onDone }: CardProps): JSX.Element {
  const { kind, text, call, startedAt, data } = question;
  const shownData = choicesOf(data).length > 0 ? withoutChoices(data) : data;
  return (
    <section class={`question question-${kind}`} aria-label={`Question: ${text}`}>
      <Icon name={kind === "unknown" ? "warning" : "question"} />
      <div class="question-body">
        <h2>{kind === "unknown" ? "Did this happen?" : "The agent asks"}</h2>
        {!call && <p class="question-text">{text}</p>}
        {call && (
          <div class="question-call">
            <code>{call.name}</code>
            {startedAt !== undefined && (
              <span class="faint">
                {" "}
                started <Time at={startedAt} />, and its process died before the result was recorded
              </span>
            )}
            {call.arguments !== undefined && <JsonTree value={call.arguments} tools={{ depth: 2 }} />}
          </div>
        )}
        {shownData !== undefined && <JsonTree value={shownData} tools={{ depth: 2 }} />}
        {canWrite() ? (
          kind === "unknown" ? (
            <OutcomeForm session={session} branch={branch} question={question} onDone={onDone} />
          ) : (
            <AnswerForm session={session} branch={branch} question={question} onDone={onDone} />
          )
        ) : (
          <div class="question-command">
            <p class="muted">This inspector is read-only. Start it with --write to answer here, or run:</p>
            <Command>{commandFor(session)}</Command>
          </div>
        )}
      </div>
    </section>
  );
}

/** The command that answers in a terminal. */
export function commandFor(session: string): string {
  const quoted = /^[\w.:@/-]+$/.test(session) ? session : `'${session.replaceAll("'", `'\\''`)}'`;
  return `npx savepoint answer ${quoted}`;
}

async function send(session: string, body: AnswerRequest, onDone: () => void): Promise<void> {
  await post<Done>(sessionPath(session, "/answer"), body);
  showToast("Answered. A worker or the next sp.recover() resumes the run.");
  onDone();
}

/** The choices that the agent has passed with its question. */
function choicesOf(data: Json | undefined): readonly Json[] {
  if (typeof data !== "object" || data === null || Array.isArray(data)) return [];
  const list = data["options"] ?? data["choices"];
  if (!Array.isArray(list) || list.length > 8) return [];
  return list.filter((each) => typeof each === "string" || typeof each === "number" || typeof each === "boolean");
}

/** The rest of the data: the choices are shown as buttons. */
function withoutChoices(data: Json | undefined): Json | undefined {
  const { options: _options, choices: _choices, ...rest } = data as { readonly [key: string]: Json };
  return Object.keys(rest).length === 0 ? undefined : rest;
}

function AnswerForm({ session, branch, question, onDone }: CardProps): JSX.Element {
  const [value, setValue] = useState<ValueText>({ text: "", form: "text" });
  const { isBusy, run } = useAction();
  const read = readValue(value);
  const answer = (each: Json): void => run(() => send(session, { branch, question: question.id, value: each }, onDone));
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        if ("value" in read) answer(read.value);
      }}
    >
      {choicesOf(question.data).length > 0 && (
        <div class="form-actions">
          {choicesOf(question.data).map((choice) => (
            <WriteButton key={JSON.stringify(choice)} onClick={() => answer(choice)} isDisabled={isBusy}>
              {typeof choice === "string" ? choice : JSON.stringify(choice)}
            </WriteButton>
          ))}
        </div>
      )}
      <ValueInput label="Answer" value={value} onChange={setValue} rows={2} />
      <div class="form-actions">
        <WriteButton type="submit" kind="primary" isDisabled={isBusy || !("value" in read) || value.text === ""}>
          Send the answer
        </WriteButton>
      </div>
    </form>
  );
}

type Outcome = "happened" | "not" | "failed";
const OUTCOMES: readonly (readonly [Outcome, string, string])[] = [
  ["happened", "It happened", "The run continues with this result. The tool is not called again."],
  ["not", "It did not", "The tool is called again."],
  ["failed", "Fail", "The tool call fails with this message, and the agent sees the error."],
];

/** Settles an unknown outcome. */
export function OutcomeForm({ session, branch, question, onDone }: CardProps): JSX.Element {
  const [outcome, setOutcome] = useState<Outcome | undefined>();
  const [value, setValue] = useState<ValueText>({ text: "", form: "text" });
  const [message, setMessage] = useState("");
  const { isBusy, run } = useAction();
  const name = useId();
  const read = readValue(value);
  const isComplete =
    outcome === "not" || (outcome === "failed" && message !== "") || (outcome === "happened" && "value" in read);
  const submit = (event: Event): void => {
    event.preventDefault();
    if (!isComplete) return;
    const settled: Partial<AnswerRequest> =
      outcome === "not"
        ? { happened: false }
        : outcome === "failed"
          ? { failed: message }
          : { happened: true, ...("value" in read && { result: read.value }) };
    run(() => send(session, { branch, question: question.id, ...settled }, onDone));
  };
  return (
    <form class="form" onSubmit={submit}>
      <fieldset class="outcomes">
        <legend class="visually-hidden">What happened</legend>
        {OUTCOMES.map(([each, title, hint]) => (
          <label key={each} class="outcome">
            <input type="radio" name={name} value={each} checked={outcome === each} onChange={() => setOutcome(each)} />
            <span>
              <strong>{title}</strong>
              <span class="field-hint">{hint}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {outcome === "happened" && (
        <ValueInput label="What the tool returned" value={value} onChange={setValue} rows={2} />
      )}
      {outcome === "failed" && (
        <label class="field">
          <span>Error message</span>
          <input value={message} onInput={({ currentTarget }) => setMessage(currentTarget.value)} />
        </label>
      )}
      {outcome !== undefined && (
        <div class="form-actions">
          <WriteButton type="submit" kind="primary" isDisabled={isBusy || !isComplete}>
            {outcome === "not" ? "Call it again" : outcome === "failed" ? "Let it fail" : "Record this result"}
          </WriteButton>
        </div>
      )}
    </form>
  );
}
