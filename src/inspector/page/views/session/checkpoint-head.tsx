/** Name, sizes and usage of a checkpoint, and what can be done with it. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { CheckpointView, Done, PinRequest } from "../../../api.js";
import { post, sessionPath } from "../../api/client.js";
import { canWrite } from "../../api/meta.js";
import { Link, paths } from "../../app/router.js";
import { useAction, WriteButton } from "../../ui/action.js";
import { Icon } from "../../ui/icon.js";
import { Bytes, Cost, Count, StatusBadge, Tag, Time } from "../../ui/text.js";
import { showToast } from "../../ui/toast.js";
import { nameOf } from "./names.js";
import { LabelDialog, RewindDialog } from "./dialogs.js";

export function CheckpointHead({
  id,
  branch,
  checkpoint,
  headSeq,
  reload,
}: {
  readonly id: string;
  readonly branch: string;
  readonly checkpoint: CheckpointView;
  readonly headSeq: number | undefined;
  readonly reload: () => void;
}): JSX.Element {
  const { seq, label, status, kind, trigger, step, usage, createdAt, stateBytes, storedBytes, pinned, expiresAt } =
    checkpoint;
  return (
    <header class="checkpoint-head">
      <div class="row wrap">
        <h2>
          <span class="hash">#{seq}</span> {nameOf(checkpoint)}
        </h2>
        {status !== "open" && status !== "running" && <StatusBadge status={status} title={checkpoint.reason} />}
        <span class="spacer" />
        <Actions id={id} branch={branch} checkpoint={checkpoint} isHead={seq === headSeq} reload={reload} />
      </div>
      <p class="session-facts">
        <Time at={createdAt} />
        <span>step {step}</span>
        <Tag title="Why it was saved">{kind === "preOperation" ? "before an operation" : kind}</Tag>
        {trigger !== undefined && label !== undefined && <span>{trigger}</span>}
        {pinned && <Tag kind="accent">pinned</Tag>}
        <span title="The complete state, as JSON">
          state <Bytes value={stateBytes} />
        </span>
        <span title="What this save has added to the store">
          stored <Bytes value={storedBytes} />
        </span>
        {usage?.tokens !== undefined && (
          <span>
            <Count value={usage.tokens} /> tokens
          </span>
        )}
        {usage?.cost !== undefined && <Cost value={usage.cost} />}
        {expiresAt !== undefined && (
          <span>
            expires <Time at={expiresAt} />
          </span>
        )}
      </p>
      {checkpoint.reason !== undefined && (
        <p class="muted clip" title={checkpoint.reason}>
          {checkpoint.reason}
        </p>
      )}
      {checkpoint.resumeHint !== undefined && <p class="muted">{checkpoint.resumeHint}</p>}
    </header>
  );
}

function Actions({
  id,
  branch,
  checkpoint,
  isHead,
  reload,
}: {
  readonly id: string;
  readonly branch: string;
  readonly checkpoint: CheckpointView;
  readonly isHead: boolean;
  readonly reload: () => void;
}): JSX.Element {
  const [open, setOpen] = useState<"label" | "rewind" | undefined>();
  const { isBusy, run } = useAction();
  const { seq, pinned } = checkpoint;
  const pin = (): void =>
    run(async () => {
      await post<Done>(sessionPath(id, "/pin"), { checkpoint: seq, pinned: !pinned } satisfies PinRequest);
      showToast(pinned ? "Unpinned: retention may remove it." : "Pinned: retention keeps it.");
      reload();
    });
  return (
    <div class="row wrap">
      {canWrite() ? (
        <Link to={paths.edit(id, seq)} class="button small">
          <Icon name="edit" />
          Edit and fork
        </Link>
      ) : (
        <WriteButton icon="edit" kind="small">
          Edit and fork
        </WriteButton>
      )}
      {!isHead && (
        <WriteButton icon="rewind" kind="small" onClick={() => setOpen("rewind")}>
          Rewind
        </WriteButton>
      )}
      <WriteButton icon="label" kind="small" onClick={() => setOpen("label")}>
        Label
      </WriteButton>
      <WriteButton icon="pin" kind="small" onClick={pin} isDisabled={isBusy}>
        {pinned ? "Unpin" : "Pin"}
      </WriteButton>
      {open === "label" && (
        <LabelDialog id={id} checkpoint={checkpoint} onClose={() => setOpen(undefined)} onDone={reload} />
      )}
      {open === "rewind" && <RewindDialog id={id} branch={branch} seq={seq} onClose={() => setOpen(undefined)} />}
    </div>
  );
}
