/** Damage that reads have found, and the verification of the whole store. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { DamageView, VerifyRequest } from "../../../api.js";
import { post } from "../../api/client.js";
import { useLive } from "../../api/live.js";
import { useResource } from "../../api/resource.js";
import { Link, paths } from "../../app/router.js";
import { useAction } from "../../ui/action.js";
import { formatDuration, formatNumber, plural } from "../../ui/format.js";
import { Callout, Command, Failure, Skeleton } from "../../ui/states.js";
import { Tag, Time } from "../../ui/text.js";
import { StoreTabs } from "./store-tabs.js";

export function Damage(): JSX.Element {
  const { data, failure, reload } = useResource<DamageView>("/api/store/damage");
  useLive("store", { store: reload, reset: reload });
  const [deep, setDeep] = useState(false);
  const { isBusy, run } = useAction();
  const verify = (request: VerifyRequest): void =>
    run(async () => {
      await post<DamageView>("/api/store/verify", request);
      reload();
    });
  const isRunning = data?.verification?.state === "running";
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Damage">
      <StoreTabs current="damage" />
      <div class="page">
        {failure && <Failure failure={failure} retry={reload} />}
        {!data && !failure && <Skeleton lines={4} />}
        {data && (
          <>
            <section class="section">
              <h2>Verification</h2>
              <p class="muted">
                Reads the whole store and checks every checksum. It changes nothing, and agents can run meanwhile.
              </p>
              <div class="row wrap">
                {isRunning ? (
                  <button type="button" class="button" disabled={isBusy} onClick={() => verify({ stop: true })}>
                    Stop
                  </button>
                ) : (
                  <>
                    <button type="button" class="button primary" disabled={isBusy} onClick={() => verify({ deep })}>
                      Verify the store
                    </button>
                    <label class="row">
                      <input
                        type="checkbox"
                        checked={deep}
                        onChange={({ currentTarget }) => setDeep(currentTarget.checked)}
                      />
                      also load every checkpoint (slower)
                    </label>
                  </>
                )}
              </div>
              {data.verification && <Verification verification={data.verification} />}
            </section>
            <Events events={data.events} />
          </>
        )}
      </div>
    </div>
  );
}

function Verification({
  verification,
}: {
  readonly verification: NonNullable<DamageView["verification"]>;
}): JSX.Element {
  const { state, startedAt, endedAt, progress, ok, problems, message } = verification;
  return (
    <div class="section">
      {state === "running" && (
        <Callout kind="info" title="Verifying …">
          <p>
            {Object.entries(progress)
              .map(([name, count]) => `${formatNumber(count)} ${name}`)
              .join(", ")}
          </p>
        </Callout>
      )}
      {state === "failed" && (
        <Callout kind="bad" title="The verification failed">
          {message}
        </Callout>
      )}
      {state === "stopped" && <p class="faint">Stopped before it was complete.</p>}
      {state === "done" && ok && (
        <Callout kind="good" title="No problem was found">
          <p>
            Finished <Time at={endedAt ?? startedAt} /> after {formatDuration((endedAt ?? startedAt) - startedAt)}.
          </p>
        </Callout>
      )}
      {problems.length > 0 && (
        <>
          <Callout kind="bad" title={`${plural(problems.length, "problem")} found`}>
            <p>Repair from backups. The command lists what it cannot repair.</p>
            <Command>npx savepoint repair --from ./backups</Command>
          </Callout>
          <div class="panel grid-wrap" tabIndex={0} role="region" aria-label="Problems">
            <table class="grid">
              <thead>
                <tr>
                  <th>Kind</th>
                  <th>Where</th>
                  <th>Problem</th>
                  <th class="num">Checkpoints</th>
                </tr>
              </thead>
              <tbody>
                {problems.slice(0, 200).map(({ kind, place, reason, sessionId, checkpoints }, index) => (
                  <tr key={index}>
                    <td>
                      <Tag kind="bad">{kind}</Tag>
                    </td>
                    <td>
                      {sessionId === undefined ? place : <Link to={paths.session(sessionId)}>{sessionId}</Link>}
                      {sessionId !== undefined && <div class="faint">{place}</div>}
                    </td>
                    <td>{reason}</td>
                    <td class="num">{checkpoints.length}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </div>
  );
}

function Events({ events }: { readonly events: DamageView["events"] }): JSX.Element {
  return (
    <section class="section">
      <h2>Found by reads</h2>
      {events.length === 0 ? (
        <p class="muted">Reads of this inspector have found no damage.</p>
      ) : (
        <ul class="list">
          {events.map(({ at, session, agent, conversation, seq, reason }, index) => (
            <li key={index} class="list-row">
              <div class="list-main">
                {session === undefined ? (
                  <strong>{conversation ?? agent ?? "The store"}</strong>
                ) : (
                  <Link to={seq === undefined ? paths.session(session) : paths.checkpoint(session, seq)}>
                    {session}
                    {seq !== undefined && ` #${seq}`}
                  </Link>
                )}
                <p class="muted">{reason}</p>
              </div>
              <span class="faint">
                <Time at={at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
