/** Who holds which run until when, and what waits for a worker. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Done, QueuePage, QueueView, ResumeRequest, WorkerPage, WorkerView } from "../../api.js";
import { post, sessionPath, withParameters } from "../api/client.js";
import { useLive } from "../api/live.js";
import { useResource } from "../api/resource.js";
import type { QueueState } from "../api/types.js";
import { Link, paths } from "../app/router.js";
import { useAction, WriteButton } from "../ui/action.js";
import { formatNumber } from "../ui/format.js";
import { Icon } from "../ui/icon.js";
import { Command, Failure, Skeleton } from "../ui/states.js";
import { Tag, Time } from "../ui/text.js";
import { showToast } from "../ui/toast.js";

const STATES: readonly QueueState[] = ["queued", "scheduled", "waiting", "interrupted", "quarantined"];
const PAGE = 100;

export function Queue(): JSX.Element {
  const [state, setState] = useState<QueueState | undefined>();
  const [offset, setOffset] = useState(0);
  const workers = useResource<WorkerPage>("/api/workers");
  const queue = useResource<QueuePage>(withParameters("/api/queue", { state, offset, limit: PAGE }));
  const reload = (): void => {
    workers.reload();
    queue.reload();
  };
  useLive("queue", { queue: reload, reset: reload });
  const choose = (next: QueueState | undefined): void => {
    setOffset(0);
    setState(next);
  };
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Workers and queue">
      <header class="view-head">
        <h1>Workers and queue</h1>
      </header>
      <div class="page">
        <section>
          <h2>Processes</h2>
          {workers.failure && <Failure failure={workers.failure} retry={workers.reload} />}
          {!workers.data && !workers.failure && <Skeleton lines={2} />}
          {workers.data && <Workers page={workers.data} />}
        </section>
        <section class="section">
          <h2>Queue</h2>
          <div class="chips section-chips" role="group" aria-label="State">
            {STATES.map((each) => (
              <button
                key={each}
                type="button"
                class={`chip queue-${each}`}
                aria-pressed={state === each}
                onClick={() => choose(state === each ? undefined : each)}
              >
                {each}
                <span class="chip-count">{formatNumber(queue.data?.states[each] ?? 0)}</span>
              </button>
            ))}
          </div>
          {queue.failure && <Failure failure={queue.failure} retry={queue.reload} />}
          {!queue.data && !queue.failure && <Skeleton lines={4} />}
          {queue.data && <Entries page={queue.data} reload={reload} />}
          {queue.data && queue.data.matches > PAGE && (
            <p class="row more-line">
              <button type="button" class="button" disabled={offset === 0} onClick={() => setOffset(offset - PAGE)}>
                Previous
              </button>
              <span class="faint number">
                {formatNumber(offset + 1)}–{formatNumber(offset + queue.data.entries.length)} of{" "}
                {formatNumber(queue.data.matches)}
              </span>
              <button
                type="button"
                class="button"
                disabled={offset + PAGE >= queue.data.matches}
                onClick={() => setOffset(offset + PAGE)}
              >
                Next
              </button>
            </p>
          )}
        </section>
      </div>
    </div>
  );
}

function Workers({ page }: { readonly page: WorkerPage }): JSX.Element {
  if (page.workers.length === 0) {
    return (
      <div class="panel teach">
        <p>No process holds a run. A worker resumes what is queued, interrupted or answered:</p>
        <Command>npx savepoint worker --agents ./agents.js</Command>
      </div>
    );
  }
  return (
    <ul class="workers">
      {page.workers.map((worker) => (
        <WorkerCard key={worker.owner} worker={worker} />
      ))}
    </ul>
  );
}

/** A process with many runs shows the first of them. */
const SHOWN_RUNS = 12;

function WorkerCard({ worker }: { readonly worker: WorkerView }): JSX.Element {
  const { owner, host, pid, alive, leaseUntil, runs } = worker;
  return (
    <li class="panel worker">
      <header class="row wrap">
        <Icon name={alive ? "play" : "bolt"} />
        <strong title={`owner ${owner}`}>
          {host}:{pid}
        </strong>
        <Tag kind={alive ? "good" : "bad"}>{alive ? "alive" : "gone"}</Tag>
        <span class="spacer" />
        <span class="faint">
          {leaseUntil === undefined ? (
            "was shut down"
          ) : (
            <>
              {alive ? "lease until" : "lease expired"} <Time at={leaseUntil} />
            </>
          )}
        </span>
      </header>
      {runs.length === 0 ? (
        <p class="faint">holds no run</p>
      ) : (
        <ul class="worker-runs">
          {runs.slice(0, SHOWN_RUNS).map(({ sessionId, branch, agent }) => (
            <li key={`${sessionId}/${branch}`} class="row">
              <Link to={paths.session(sessionId, branch === "main" ? undefined : branch)} class="clip">
                {sessionId}
              </Link>
              {branch !== "main" && <Tag>{branch}</Tag>}
              <span class="faint clip">{agent}</span>
            </li>
          ))}
          {runs.length > SHOWN_RUNS && <li class="faint">and {formatNumber(runs.length - SHOWN_RUNS)} more</li>}
        </ul>
      )}
    </li>
  );
}

const TONES = {
  queued: "accent",
  scheduled: "plain",
  waiting: "warn",
  interrupted: "warn",
  quarantined: "bad",
} as const;

function Entries({ page, reload }: { readonly page: QueuePage; readonly reload: () => void }): JSX.Element {
  if (page.entries.length === 0) {
    return (
      <div class="panel teach">
        <p>Nothing is in the queue. Work for other processes is queued with:</p>
        <Command>{`await sp.enqueue(agent, { session: "order-88", input })`}</Command>
      </div>
    );
  }
  return (
    <div class="panel grid-wrap" tabIndex={0} role="region" aria-label="Queue entries">
      <table class="grid">
        <thead>
          <tr>
            <th>State</th>
            <th>Session</th>
            <th>Agent</th>
            <th class="num">Position</th>
            <th class="num">Priority</th>
            <th>Ready</th>
            <th>
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {page.entries.map((entry) => (
            <EntryRow key={`${entry.sessionId}/${entry.branch}`} entry={entry} reload={reload} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function EntryRow({ entry, reload }: { readonly entry: QueueView; readonly reload: () => void }): JSX.Element {
  const { sessionId, branch, agent, state, position, priority, readyAt, questions, reason, external } = entry;
  const { isBusy, run } = useAction();
  const retry = (): void =>
    run(async () => {
      const { done } = await post<Done>(sessionPath(sessionId, "/resume"), { branch } satisfies ResumeRequest);
      showToast(done ? "Scheduled: the next worker resumes it." : "The run needs no worker.");
      reload();
    });
  const note = reason ?? questions[0]?.text;
  return (
    <tr>
      <td>
        <Tag kind={TONES[state]}>{state}</Tag>
      </td>
      <td>
        <Link to={paths.session(sessionId, branch === "main" ? undefined : branch)}>{sessionId}</Link>
        {branch !== "main" && <Tag>{branch}</Tag>}
        {note !== undefined && <div class="faint">{note}</div>}
      </td>
      <td class="muted name">
        {agent}
        {external && <div class="faint">loop of the caller</div>}
      </td>
      <td class="num">{position ?? "–"}</td>
      <td class="num">{priority}</td>
      <td>{readyAt === undefined ? "–" : <Time at={readyAt} />}</td>
      <td class="num">
        {state === "quarantined" && (
          <WriteButton kind="small" icon="refresh" onClick={retry} isDisabled={isBusy}>
            Retry
          </WriteButton>
        )}
      </td>
    </tr>
  );
}
