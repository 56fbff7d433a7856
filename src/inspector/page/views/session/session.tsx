/** A session: what it waits for, and its history, timeline and journal. */
import type { JSX } from "preact";
import type { SessionDetail } from "../../../api.js";
import { sessionPath, withParameters } from "../../api/client.js";
import { useResource } from "../../api/resource.js";
import { navigate, paths, place } from "../../app/router.js";
import type { ViewProps } from "../../app/views.js";
import { Failure, Skeleton } from "../../ui/states.js";
import { TabLinks } from "../../ui/tabs.js";
import { Journal } from "../run/journal.js";
import { Timeline } from "../run/timeline.js";
import { HistoryPane } from "./history.js";
import { SessionHead } from "./head.js";
import { SessionNotices } from "./notices.js";
import { useThrottledLive } from "./graph-data.js";

export function Session({ ids, query }: ViewProps): JSX.Element {
  const [id = "", seq] = ids;
  return <SessionOf key={id} id={id} seq={seq} query={query} />;
}

function SessionOf({
  id,
  seq,
  query,
}: {
  readonly id: string;
  readonly seq: string | undefined;
  readonly query: URLSearchParams;
}): JSX.Element {
  const branch = query.get("branch") ?? "main";
  const part = place.value.segments[2];
  const {
    data: detail,
    failure,
    reload,
  } = useResource<SessionDetail>(withParameters(sessionPath(id), { branch: branch === "main" ? undefined : branch }));
  useThrottledLive(id, reload);
  if (failure && !detail) return <Failure failure={failure} retry={reload} />;
  if (!detail) return <Skeleton lines={10} />;
  const tab = part === "timeline" || part === "journal" ? part : "history";
  const changeBranch = (name: string): void => {
    const query = { branch: name === "main" ? undefined : name };
    const path = { history: paths.session(id), timeline: paths.timeline(id), journal: paths.journal(id) }[tab];
    navigate(withParameters(path, query));
  };
  const shown = branch === "main" ? undefined : branch;
  return (
    <div class={part === "checkpoints" ? "view session-view has-checkpoint" : "view session-view"}>
      <SessionHead detail={detail} onBranch={changeBranch} reload={reload} />
      <SessionNotices detail={detail} reload={reload} />
      <TabLinks
        label="Parts of the session"
        tabs={[
          { name: "History", to: paths.session(id, shown), isCurrent: tab === "history" },
          { name: "Timeline", to: paths.timeline(id, branch), isCurrent: tab === "timeline" },
          { name: "Journal", to: paths.journal(id, branch), isCurrent: tab === "journal" },
        ]}
      />
      {tab === "history" && (
        <HistoryPane detail={detail} seq={seq === undefined ? undefined : Number(seq)} query={query} />
      )}
      {tab === "timeline" && <Timeline id={id} branch={branch} />}
      {tab === "journal" && <Journal id={id} branch={branch} detail={detail} query={query} reload={reload} />}
    </div>
  );
}
