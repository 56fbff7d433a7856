/** The name and the status of a session, and what can be done with its run. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { CancelRequest, Done, ResumeRequest, SessionDetail } from "../../../api.js";
import { post, sessionPath } from "../../api/client.js";
import { Link, paths } from "../../app/router.js";
import { CopyButton, useAction, WriteButton } from "../../ui/action.js";
import { Dialog } from "../../ui/dialog.js";
import { plural } from "../../ui/format.js";
import { Icon } from "../../ui/icon.js";
import { Cost, Count, StatusBadge, Tag, Time } from "../../ui/text.js";
import { showToast } from "../../ui/toast.js";

export function SessionHead({
  detail,
  onBranch,
  reload,
}: {
  readonly detail: SessionDetail;
  readonly onBranch: (branch: string) => void;
  readonly reload: () => void;
}): JSX.Element {
  const { session, branch, status, branches, head } = detail;
  return (
    <header class="session-head">
      <Link to={paths.sessions} class="back">
        <Icon name="left" />
        Sessions
      </Link>
      <div class="session-line">
        <h1 class="session-id" title={session.id}>
          {session.id}
        </h1>
        <CopyButton text={session.id} label="Copy the id" />
        <StatusBadge status={status} />
        {branches.length > 1 && (
          <label class="branch-choice">
            <Icon name="branch" />
            <span class="visually-hidden">Branch</span>
            <select value={branch} onChange={({ currentTarget }) => onBranch(currentTarget.value)}>
              {branches.map(({ name }) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
        <span class="spacer" />
        <RunActions detail={detail} reload={reload} />
      </div>
      <p class="session-facts">
        {session.agent !== undefined && <Tag>{session.agent}</Tag>}
        <span>
          updated <Time at={head?.createdAt ?? session.updatedAt} />
        </span>
        <span>{plural(head?.step ?? session.steps, "step")}</span>
        <span>{plural(session.checkpoints, "checkpoint")}</span>
        {head?.usage?.tokens !== undefined && (
          <span>
            <Count value={head.usage.tokens} /> tokens
          </span>
        )}
        {head?.usage?.cost !== undefined && (
          <span>
            <Cost value={head.usage.cost} />
          </span>
        )}
        {detail.worker && (
          <span title={`Process ${detail.worker.pid} on ${detail.worker.host}`}>
            runs in {detail.worker.host}:{detail.worker.pid}
          </span>
        )}
      </p>
    </header>
  );
}

const RESUMABLE: readonly string[] = ["interrupted", "failed", "halted"];
const CANCELLABLE: readonly string[] = ["running", "waiting", "queued", "interrupted"];

function RunActions({ detail, reload }: { readonly detail: SessionDetail; readonly reload: () => void }): JSX.Element {
  const { session, branch, status, queue } = detail;
  const [isCancelling, setCancelling] = useState(false);
  const { isBusy, run } = useAction();
  const isQuarantined = queue.some((each) => each.branch === branch && each.state === "quarantined");
  const resume = (): void =>
    run(async () => {
      const { done } = await post<Done>(sessionPath(session.id, "/resume"), { branch } satisfies ResumeRequest);
      showToast(done ? "Scheduled: the next worker resumes it." : "The run needs no worker.");
      reload();
    });
  return (
    <div class="row">
      {(RESUMABLE.includes(status) || isQuarantined) && session.agent !== undefined && (
        <WriteButton icon="play" onClick={resume} isDisabled={isBusy}>
          Resume
        </WriteButton>
      )}
      {CANCELLABLE.includes(status) && (
        <WriteButton icon="stop" kind="danger" onClick={() => setCancelling(true)}>
          Cancel
        </WriteButton>
      )}
      {isCancelling && (
        <CancelDialog id={session.id} branch={branch} onClose={() => setCancelling(false)} onDone={reload} />
      )}
    </div>
  );
}

function CancelDialog({
  id,
  branch,
  onClose,
  onDone,
}: {
  readonly id: string;
  readonly branch: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}): JSX.Element {
  const [reason, setReason] = useState("");
  const { isBusy, run } = useAction();
  const cancel = (event: Event): void => {
    event.preventDefault();
    run(async () => {
      const body: CancelRequest = { branch, ...(reason !== "" && { reason }) };
      const { done } = await post<Done>(sessionPath(id, "/cancel"), body);
      showToast(done ? "The run is being cancelled." : "There was nothing to cancel.");
      onClose();
      onDone();
    });
  };
  return (
    <Dialog title="Cancel the run" onClose={onClose}>
      <form class="form" onSubmit={cancel}>
        <p class="muted">The run halts. Its history stays, and it can be resumed.</p>
        <label class="field">
          <span>Reason (optional)</span>
          <input value={reason} onInput={({ currentTarget }) => setReason(currentTarget.value)} />
        </label>
        <div class="form-actions">
          <WriteButton kind="danger" type="submit" isDisabled={isBusy}>
            Cancel the run
          </WriteButton>
          <button type="button" class="button" onClick={onClose}>
            Back
          </button>
        </div>
      </form>
    </Dialog>
  );
}
