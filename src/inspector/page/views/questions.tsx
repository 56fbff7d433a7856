/** Everything that waits for an answer, the longest waiting first. */
import type { JSX } from "preact";
import type { QuestionPage } from "../../api.js";
import { useLive } from "../api/live.js";
import { useResource } from "../api/resource.js";
import { withParameters } from "../api/client.js";
import { Link, paths } from "../app/router.js";
import { formatNumber, plural } from "../ui/format.js";
import { Command, Empty, Failure, Skeleton } from "../ui/states.js";
import { Tag, Time } from "../ui/text.js";
import { QuestionCard } from "./question-card.js";

export function Questions(): JSX.Element {
  const { data, failure, reload } = useResource<QuestionPage>(withParameters("/api/questions", { limit: 100 }));
  useLive("sessions", { sessions: reload, reset: reload });
  if (failure && !data) return <Failure failure={failure} retry={reload} />;
  return (
    <div class="view">
      <header class="view-head">
        <h1>Questions</h1>
        <p class="view-count" role="status">
          {data && formatNumber(data.total)}
        </p>
      </header>
      {!data && <Skeleton lines={5} />}
      {data?.total === 0 && (
        <Empty icon="question" title="Nothing waits for an answer">
          <p>
            Questions of agents appear here, and tool calls that a crash has interrupted: whether they happened, only a
            person or the outside world knows.
          </p>
          <Command>{`const isApproved = await run.ask("Refund order 88?");`}</Command>
        </Empty>
      )}
      {data && data.total > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Questions">
          <ul class="page asking-list">
            {data.entries.map(({ session, branch, agent, since, questions }) => (
              <li key={`${session}/${branch}`} class="panel">
                <header class="row wrap asking-head">
                  <Link to={paths.session(session, branch === "main" ? undefined : branch)} class="asking-id">
                    {session}
                  </Link>
                  {branch !== "main" && <Tag>{branch}</Tag>}
                  {agent !== undefined && <Tag>{agent}</Tag>}
                  <span class="spacer" />
                  <span class="faint">
                    asked <Time at={since} />
                  </span>
                </header>
                {questions.map((question) => (
                  <QuestionCard
                    key={question.id}
                    session={session}
                    branch={branch}
                    question={question}
                    onDone={reload}
                  />
                ))}
              </li>
            ))}
            {data.total > data.entries.length && (
              <li class="faint">
                {plural(data.total - data.entries.length, "more session")} will follow when these are answered.
              </li>
            )}
          </ul>
        </div>
      )}
    </div>
  );
}
