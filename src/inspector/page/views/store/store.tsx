/** The store: its size, how it grows, its largest sessions, the last crash and its backups. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Growth, LargestSessions, StoreView } from "../../../api.js";
import { withParameters } from "../../api/client.js";
import { useLive } from "../../api/live.js";
import { useResource } from "../../api/resource.js";
import { Link, paths } from "../../app/router.js";
import { formatBytes, formatNumber, plural } from "../../ui/format.js";
import { Callout, Command, Failure, Skeleton } from "../../ui/states.js";
import { Switch } from "../../ui/tabs.js";
import { Bytes, Count, StatusBadge, Time } from "../../ui/text.js";
import { GrowthChart } from "./growth-chart.js";
import { StoreTabs } from "./store-tabs.js";

export function Store(): JSX.Element {
  const { data, failure, reload } = useResource<StoreView>("/api/store");
  useLive("store", { store: reload });
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Store">
      <StoreTabs current="overview" />
      <div class="page">
        {failure && <Failure failure={failure} retry={reload} />}
        {!data && !failure && <Skeleton lines={6} />}
        {data && (
          <>
            <Figures store={data} />
            <Growing />
            <Largest />
            <Shutdown store={data} />
            <Backups store={data} />
          </>
        )}
      </div>
    </div>
  );
}

function Figures({ store: { stats, at, url } }: { readonly store: StoreView }): JSX.Element {
  const figures: readonly (readonly [string, string, string | undefined])[] = [
    ["Size", formatBytes(stats.bytes), `${formatNumber(stats.bytes)} bytes`],
    ["Sessions", formatNumber(stats.sessions), undefined],
    ["Checkpoints", formatNumber(stats.checkpoints), undefined],
    ["Conversations", formatNumber(stats.conversations), undefined],
    ["Messages", formatNumber(stats.messages), undefined],
    ["Agents", formatNumber(stats.agents), undefined],
  ];
  return (
    <section class="section">
      <p class="store-line">
        <code>{url}</code>{" "}
        <span class="faint">
          counted <Time at={at} />
        </span>
      </p>
      <dl class="figures">
        {figures.map(([name, value, title]) => (
          <div key={name} class="panel figure" title={title}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Growing(): JSX.Element {
  const { data, failure, reload } = useResource<Growth>(withParameters("/api/store/growth", { buckets: 48 }));
  return (
    <section class="section">
      <h2>Growth</h2>
      {failure && <Failure failure={failure} retry={reload} />}
      {!data && !failure && <Skeleton lines={4} />}
      {data && <GrowthChart growth={data} />}
    </section>
  );
}

type By = "bytes" | "state" | "checkpoints";

function Largest(): JSX.Element {
  const [by, setBy] = useState<By>("bytes");
  const { data, failure, reload } = useResource<LargestSessions>(
    withParameters("/api/store/largest", { by, limit: 12 }),
  );
  return (
    <section class="section">
      <div class="row wrap section-head">
        <h2>Largest sessions</h2>
        <span class="spacer" />
        <Switch
          label="Largest by"
          value={by}
          options={[
            ["bytes", "Stored bytes"],
            ["state", "State"],
            ["checkpoints", "Checkpoints"],
          ]}
          onChange={setBy}
        />
      </div>
      {failure && <Failure failure={failure} retry={reload} />}
      {!data && !failure && <Skeleton lines={4} />}
      {data && data.sessions.length === 0 && <p class="faint">There are no sessions.</p>}
      {data && data.sessions.length > 0 && (
        <div class="panel grid-wrap" tabIndex={0} role="region" aria-label="Largest sessions">
          <table class="grid">
            <thead>
              <tr>
                <th>Session</th>
                <th>Status</th>
                <th class="num">Stored</th>
                <th class="num">State</th>
                <th class="num">Checkpoints</th>
                <th>Updated</th>
              </tr>
            </thead>
            <tbody>
              {data.sessions.map((row) => (
                <tr key={row.id}>
                  <td>
                    <Link to={paths.session(row.id)}>{row.id}</Link>
                  </td>
                  <td>
                    <StatusBadge status={row.status} />
                  </td>
                  <td class="num">{row.bytes === undefined ? "–" : <Bytes value={row.bytes} />}</td>
                  <td class="num">
                    <Bytes value={row.stateBytes} />
                  </td>
                  <td class="num">
                    <Count value={row.checkpoints} />
                  </td>
                  <td>
                    <Time at={row.updatedAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {data?.isIndexing && <p class="faint">The sessions are still being read; the list may be incomplete.</p>}
    </section>
  );
}

/** The number of interrupted runs that are shown. All of them are in the list of sessions. */
const SHOWN_RUNS = 10;

function Shutdown({ store: { lastShutdown } }: { readonly store: StoreView }): JSX.Element {
  const { clean, processes, interrupted } = lastShutdown;
  return (
    <section class="section">
      <h2>Last shutdown</h2>
      {clean ? (
        <p class="muted">No process has crashed: each one closed the store.</p>
      ) : (
        <Callout kind="warn" title={`${plural(processes.length, "process", "processes")} crashed`}>
          {processes.slice(0, SHOWN_RUNS).map((each, index) => (
            <p key={index}>
              process {each.pid} on {each.host}
            </p>
          ))}
          {interrupted.length > 0 && <p>{plural(interrupted.length, "interrupted run")}:</p>}
          <ul>
            {interrupted.slice(0, SHOWN_RUNS).map(({ sessionId, branch }) => (
              <li key={`${sessionId}/${branch}`}>
                <Link to={paths.session(sessionId, branch === "main" ? undefined : branch)}>{sessionId}</Link>
              </li>
            ))}
          </ul>
        </Callout>
      )}
    </section>
  );
}

function Backups({ store: { backups } }: { readonly store: StoreView }): JSX.Element {
  return (
    <section class="section">
      <h2>Backups</h2>
      {backups.length === 0 ? (
        <div class="panel teach">
          <p>No backups are recorded. A backup is one file, and can be made while agents run:</p>
          <Command>npx savepoint backup --to ./backups --keep 7</Command>
        </div>
      ) : (
        <div class="panel grid-wrap" tabIndex={0} role="region" aria-label="Backups">
          <table class="grid">
            <thead>
              <tr>
                <th>File</th>
                <th>Machine</th>
                <th class="num">Size</th>
                <th>Written</th>
              </tr>
            </thead>
            <tbody>
              {[...backups].reverse().map(({ path, host, bytes, createdAt }) => (
                <tr key={`${host}${path}`}>
                  <td>
                    <code>{path}</code>
                  </td>
                  <td>{host}</td>
                  <td class="num">{bytes === undefined ? "–" : <Bytes value={bytes} />}</td>
                  <td>
                    <Time at={createdAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
