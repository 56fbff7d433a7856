/** A checkpoint: messages, state, and changes since another one. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { CheckpointDetail, Diff, StatePart } from "../../../api.js";
import { get, sessionPath, withParameters } from "../../api/client.js";
import { useResource } from "../../api/resource.js";
import { setQuery } from "../../app/router.js";
import { Changes } from "../../ui/changes.js";
import { plural } from "../../ui/format.js";
import { JsonTree } from "../../ui/json-tree.js";
import { Callout, Failure, Skeleton } from "../../ui/states.js";
import { Switch } from "../../ui/tabs.js";
import { CheckpointHead } from "./checkpoint-head.js";
import { Messages } from "./messages.js";
import { PendingCalls } from "./pending-calls.js";

type Part = "messages" | "state" | "both" | "changes";
const PARTS: readonly (readonly [Part, string])[] = [
  ["messages", "Messages"],
  ["state", "State"],
  ["both", "Both"],
  ["changes", "Changes"],
];

/** While the arrow keys are held down, not every checkpoint is loaded, in milliseconds. */
const PAUSE = 60;

function useSettled(seq: number): number {
  const [settled, setSettled] = useState(seq);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(seq), PAUSE);
    return () => clearTimeout(timer);
  }, [seq]);
  return settled;
}

export function CheckpointPane({
  id,
  branch,
  seq,
  headSeq,
  isIdle,
  query,
}: {
  readonly id: string;
  readonly branch: string;
  readonly seq: number;
  readonly headSeq: number | undefined;
  /** Whether the branch has no run, so that its tool calls belong to no process. */
  readonly isIdle: boolean;
  readonly query: URLSearchParams;
}): JSX.Element {
  const settled = useSettled(seq);
  const { data, failure, reload, isStale } = useResource<CheckpointDetail>(
    withParameters(sessionPath(id, "/checkpoint"), { at: settled, maxBytes: 200_000 }),
  );
  if (failure && (isStale || !data)) return <Failure failure={failure} retry={reload} />;
  if (!data) return <Skeleton lines={8} />;
  const hasMessages = (data.messages?.total ?? 0) > 0;
  const asked = PARTS.find(([part]) => part === query.get("view"))?.[0];
  const part = asked ?? (hasMessages ? "messages" : "state");
  return (
    <>
      <CheckpointHead id={id} branch={branch} checkpoint={data.checkpoint} headSeq={headSeq} reload={reload} />
      <div class="checkpoint-bar">
        <Switch label="Part of the checkpoint" value={part} options={PARTS} onChange={(view) => setQuery({ view })} />
        {part === "changes" && <Against seq={data.checkpoint.seq} query={query} />}
      </div>
      <div class={`checkpoint-body ${part}`} tabIndex={0} role="region" aria-label={part}>
        <Damage data={data} />
        {failure && <Failure failure={failure} retry={reload} />}
        {part === "changes" ? (
          <ChangesPart id={id} seq={data.checkpoint.seq} from={query.get("from") ?? undefined} />
        ) : (
          <>
            {(part === "messages" || part === "both") && <Messages id={id} detail={data} />}
            {(part === "state" || part === "both") && <StateTree id={id} detail={data} />}
            {part === "messages" && isIdle && data.checkpoint.seq === headSeq && data.pendingToolCalls.length > 0 && (
              <PendingCalls id={id} branch={branch} calls={data.pendingToolCalls} onDone={reload} />
            )}
          </>
        )}
      </div>
    </>
  );
}

function Damage({ data: { holes, skipped } }: { readonly data: CheckpointDetail }): JSX.Element | null {
  if (holes.length === 0 && skipped.length === 0) return null;
  return (
    <Callout kind="bad" title="Parts of this session are damaged">
      {holes.slice(0, 20).map(({ path, reason }) => (
        <p key={path}>
          <code>{path === "" ? "(the complete state)" : path}</code> {reason}
        </p>
      ))}
      {skipped.length > 0 && <p>{plural(skipped.length, "newer checkpoint")} cannot be read.</p>}
      <p>
        Repair from backups with <code>npx savepoint repair</code>.
      </p>
    </Callout>
  );
}

/** Loads a part of the state of a checkpoint. */
export function partLoader(id: string, seq: number): (pointer: string) => Promise<StatePart["value"]> {
  return async (pointer) => {
    const path = withParameters(sessionPath(id, "/state"), { at: seq, pointer, maxBytes: 1_000_000 });
    return (await get<StatePart>(path)).value;
  };
}

function StateTree({
  id,
  detail: { checkpoint, state },
}: {
  readonly id: string;
  readonly detail: CheckpointDetail;
}): JSX.Element {
  return (
    <div class="state-part" tabIndex={0}>
      <JsonTree key={checkpoint.id} value={state} tools={{ load: partLoader(id, checkpoint.seq), depth: 2 }} />
    </div>
  );
}

/** The checkpoint to compare with. */
function Against({ seq, query }: { readonly seq: number; readonly query: URLSearchParams }): JSX.Element {
  const from = query.get("from") ?? "";
  return (
    <label class="against">
      since
      <select
        value={from === "" ? "parent" : "other"}
        aria-label="Compare with"
        onChange={({ currentTarget }) =>
          setQuery({ from: currentTarget.value === "parent" ? undefined : String(Math.max(1, seq - 1)) })
        }
      >
        <option value="parent">its parent</option>
        <option value="other">checkpoint …</option>
      </select>
      {from !== "" && (
        <input
          type="number"
          min={0}
          aria-label="Number of the other checkpoint"
          value={from}
          onChange={({ currentTarget }) => setQuery({ from: currentTarget.value || undefined })}
        />
      )}
    </label>
  );
}

function ChangesPart({
  id,
  seq,
  from,
}: {
  readonly id: string;
  readonly seq: number;
  readonly from: string | undefined;
}): JSX.Element {
  const { data, failure, isStale, reload } = useResource<Diff>(
    withParameters(sessionPath(id, "/diff"), { to: seq, from, limit: 500 }),
  );
  if (failure) return <Failure failure={failure} retry={reload} />;
  if (!data) return <Skeleton />;
  return (
    <div class={isStale ? "changes-part stale" : "changes-part"}>
      {!data.from && <p class="faint">This checkpoint has no parent: everything is new.</p>}
      <Changes changes={data.changes} total={data.total} />
    </div>
  );
}
