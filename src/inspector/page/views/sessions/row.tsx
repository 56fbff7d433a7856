/** A session in the list. */
import type { JSX } from "preact";
import type { SessionRow } from "../../../api.js";
import { Link, paths } from "../../app/router.js";
import { plural } from "../../ui/format.js";
import { Icon } from "../../ui/icon.js";
import { isNarrow } from "../../ui/media.js";
import { Bytes, Cost, Count, StatusBadge, Time } from "../../ui/text.js";

interface LineProps {
  readonly index: number;
  readonly start: number;
  readonly height: number;
  readonly row: SessionRow | undefined;
}

export function SessionLine({ index, start, height, row }: LineProps): JSX.Element {
  const style = { transform: `translateY(${start}px)`, height: `${height}px` };
  if (!row) {
    return (
      <div class="table-row loading" role="row" aria-rowindex={index + 2} data-index={index} style={style}>
        <div role="cell" class="skeleton" />
      </div>
    );
  }
  const isAsking = row.questions > 0;
  return (
    <div
      class={isAsking ? "table-row asking" : "table-row"}
      role="row"
      aria-rowindex={index + 2}
      data-index={index}
      style={style}
    >
      {isNarrow.value ? <NarrowCells row={row} /> : <WideCells row={row} />}
    </div>
  );
}

function WideCells({ row }: { readonly row: SessionRow }): JSX.Element {
  return (
    <>
      <div role="cell" class="col-status">
        <StatusBadge status={row.status} />
      </div>
      <div role="cell" class="col-session">
        <Name row={row} />
        <Note row={row} />
      </div>
      <div role="cell" class="col-agent">
        {row.agent ?? <span class="faint">–</span>}
      </div>
      <div role="cell" class="col-time">
        <Time at={row.updatedAt} />
      </div>
      <div role="cell" class="col-number">
        <Count value={row.steps} />
      </div>
      <div role="cell" class="col-number">
        <Count value={row.tokens} />
      </div>
      <div role="cell" class="col-number">
        <Cost value={row.cost} />
      </div>
      <div role="cell" class="col-number">
        {row.checkpoints === 0 ? <span class="faint">–</span> : <Bytes value={row.stateBytes} />}
      </div>
    </>
  );
}

function NarrowCells({ row }: { readonly row: SessionRow }): JSX.Element {
  return (
    <div role="cell" class="card">
      <div class="card-top">
        <Name row={row} />
        <StatusBadge status={row.status} />
      </div>
      <Note row={row} />
      <div class="card-foot">
        {row.agent !== undefined && <span class="clip">{row.agent}</span>}
        <Time at={row.updatedAt} />
        <span>{plural(row.steps, "step")}</span>
        {row.cost !== undefined && <Cost value={row.cost} />}
      </div>
    </div>
  );
}

function Name({ row }: { readonly row: SessionRow }): JSX.Element {
  return (
    <Link to={paths.session(row.id)} class="row-link" title={row.id}>
      {row.id}
    </Link>
  );
}

/** The line below the id: what the session waits for, why it stopped, or its label. */
function Note({ row }: { readonly row: SessionRow }): JSX.Element {
  const { question, questions, questionKind, reason, label, status, wakeAt, checkpoints } = row;
  if (question !== undefined) {
    return (
      <div class="note note-ask" title={question}>
        <Icon name={questionKind === "unknown" ? "warning" : "question"} />
        <span class="clip">{question}</span>
        {questions > 1 && <span class="more">+{questions - 1}</span>}
      </div>
    );
  }
  if (wakeAt !== undefined && status === "waiting") {
    return (
      <div class="note">
        <Icon name="clock" />
        <span class="clip">
          sleeps, resumes <Time at={wakeAt} />
        </span>
      </div>
    );
  }
  if (reason !== undefined && status !== "completed") {
    return (
      <div class={status === "failed" ? "note note-bad" : "note"} title={reason}>
        <span class="clip">{reason}</span>
      </div>
    );
  }
  if (label !== undefined) {
    return (
      <div class="note">
        <Icon name="label" />
        <span class="clip">{label}</span>
      </div>
    );
  }
  return (
    <div class="note">
      <span class="clip">
        {status === "queued" && checkpoints === 0 ? "waits for a worker" : plural(checkpoints, "checkpoint")}
      </span>
    </div>
  );
}
