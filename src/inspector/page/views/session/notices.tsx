/** What needs attention: questions, errors, and why a session does not run. */
import type { JSX } from "preact";
import type { SessionDetail } from "../../../api.js";
import { Callout, Command } from "../../ui/states.js";
import { Time } from "../../ui/text.js";
import { QuestionCard } from "../question-card.js";

export function SessionNotices({
  detail,
  reload,
}: {
  readonly detail: SessionDetail;
  readonly reload: () => void;
}): JSX.Element | null {
  const { session, branch, questions, status, reason, error, wakeAt, queue } = detail;
  const quarantined = queue.find((each) => each.branch === branch && each.state === "quarantined");
  const notices: JSX.Element[] = questions.map((question) => (
    <QuestionCard key={question.id} session={session.id} branch={branch} question={question} onDone={reload} />
  ));
  if (quarantined) {
    notices.push(
      <Callout key="quarantined" kind="bad" title="Quarantined: workers do not resume it">
        <p>{quarantined.reason ?? "It has crashed too many processes."}</p>
      </Callout>,
    );
  } else if (status === "failed" || status === "halted") {
    notices.push(
      <Callout key="failed" kind={status === "failed" ? "bad" : "warn"} title={reason ?? `The run has ${status}.`}>
        {error && (
          <details class="stack">
            <summary>
              {error.name}: {error.message === reason ? "show the stack" : error.message}
            </summary>
            {error.stack !== undefined && <pre>{error.stack}</pre>}
          </details>
        )}
      </Callout>,
    );
  } else if (status === "interrupted") {
    notices.push(
      <Callout key="interrupted" kind="warn" title="Interrupted: its process has ended">
        <p>No recorded result is lost. A worker or the next start of the application resumes it:</p>
        <Command>await sp.recover([agent])</Command>
      </Callout>,
    );
  } else if (status === "waiting" && questions.length === 0 && wakeAt !== undefined) {
    notices.push(
      <Callout key="asleep" kind="info">
        <p>
          It sleeps and resumes <Time at={wakeAt} />.
        </p>
      </Callout>,
    );
  }
  return notices.length === 0 ? null : <div class="notices">{notices}</div>;
}
