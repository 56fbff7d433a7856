/** The branch graph beside the selected checkpoint; in a narrow window, one of them. */
import type { JSX } from "preact";
import type { SessionDetail } from "../../../api.js";
import { Link, navigate, paths } from "../../app/router.js";
import { Icon } from "../../ui/icon.js";
import { isNarrow } from "../../ui/media.js";
import { Command, Empty } from "../../ui/states.js";
import { CheckpointPane } from "./checkpoint.js";
import { useGraph } from "./graph-data.js";
import { GraphList } from "./graph.js";

/** Statuses of branches without a run, or whose run has ended. */
const IDLE: readonly SessionDetail["status"][] = ["open", "completed", "failed"];

export function HistoryPane({
  detail,
  seq,
  query,
}: {
  readonly detail: SessionDetail;
  readonly seq: number | undefined;
  readonly query: URLSearchParams;
}): JSX.Element {
  const { session, branches, head, branch, status } = detail;
  const { id } = session;
  const graph = useGraph(id, branches);
  const selected = seq ?? head?.seq;
  const kept = Object.fromEntries(
    ["view", "branch"].flatMap((name) => (query.has(name) ? [[name, query.get(name) ?? ""]] : [])),
  );
  const select = (next: number): void =>
    navigate(paths.checkpoint(id, next, kept), { replace: seq !== undefined && !isNarrow.value });
  if (graph.isLoaded && graph.total === 0) {
    return (
      <Empty icon="sessions" title="No checkpoints">
        <p>The session was created, but has no saved state yet.</p>
        <Command>{`await sp.session(${JSON.stringify(id)}).save(state)`}</Command>
      </Empty>
    );
  }
  const showsList = !isNarrow.value || seq === undefined;
  const showsCheckpoint = selected !== undefined && (!isNarrow.value || seq !== undefined);
  return (
    <div class="history">
      {showsList && <GraphList id={id} graph={graph} branches={branches} selected={selected} onSelect={select} />}
      {showsCheckpoint && (
        <section class="checkpoint" aria-label={`Checkpoint ${selected}`}>
          {isNarrow.value && (
            <Link to={paths.session(id, branch === "main" ? undefined : branch)} class="back">
              <Icon name="left" />
              All checkpoints
            </Link>
          )}
          <CheckpointPane
            id={id}
            branch={branch}
            seq={selected}
            headSeq={head?.seq}
            isIdle={IDLE.includes(status)}
            query={query}
          />
        </section>
      )}
    </div>
  );
}
