/** Labels and rewinds. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { CheckpointView, Done, EffectsAfter, LabelRequest, RewindRequest, RewindResponse } from "../../../api.js";
import { post, sessionPath, withParameters } from "../../api/client.js";
import { useResource } from "../../api/resource.js";
import { navigate, paths } from "../../app/router.js";
import { useAction, WriteButton } from "../../ui/action.js";
import { Dialog } from "../../ui/dialog.js";
import { plural } from "../../ui/format.js";
import { Callout, Failure, Skeleton } from "../../ui/states.js";
import { Tag } from "../../ui/text.js";
import { showToast } from "../../ui/toast.js";

export function LabelDialog({
  id,
  checkpoint,
  onClose,
  onDone,
}: {
  readonly id: string;
  readonly checkpoint: CheckpointView;
  readonly onClose: () => void;
  readonly onDone: () => void;
}): JSX.Element {
  const [label, setLabel] = useState(checkpoint.label ?? "");
  const { isBusy, run } = useAction();
  const save = (event: Event): void => {
    event.preventDefault();
    run(async () => {
      const body: LabelRequest = { checkpoint: checkpoint.seq, label: label.trim() === "" ? null : label.trim() };
      await post<Done>(sessionPath(id, "/label"), body);
      showToast(body.label === null ? "The label was removed." : "Labelled.");
      onClose();
      onDone();
    });
  };
  return (
    <Dialog title={`Label checkpoint #${checkpoint.seq}`} onClose={onClose}>
      <form class="form" onSubmit={save}>
        <label class="field">
          <span>Label</span>
          <input value={label} maxLength={200} onInput={({ currentTarget }) => setLabel(currentTarget.value)} />
          <span class="field-hint">
            Labelled checkpoints are found by their label, and retention keeps them. Empty removes it.
          </span>
        </label>
        <div class="form-actions">
          <WriteButton kind="primary" type="submit" isDisabled={isBusy}>
            Save
          </WriteButton>
        </div>
      </form>
    </Dialog>
  );
}

/** Rewinding: the later tool calls are shown first, because a rewind does not undo them. */
export function RewindDialog({
  id,
  branch,
  seq,
  onClose,
}: {
  readonly id: string;
  readonly branch: string;
  readonly seq: number;
  readonly onClose: () => void;
}): JSX.Element {
  const { data, failure } = useResource<EffectsAfter>(
    withParameters(sessionPath(id, "/effects-after"), { at: seq, branch }),
  );
  const { isBusy, run } = useAction();
  const rewind = (): void =>
    run(async () => {
      const body: RewindRequest = { checkpoint: seq, branch };
      const { checkpoint } = await post<RewindResponse>(sessionPath(id, "/rewind"), body);
      showToast(`Branch ${branch} is now at #${checkpoint.seq}.`);
      onClose();
      navigate(paths.session(id, branch === "main" ? undefined : branch));
    });
  return (
    <Dialog title={`Rewind branch ${branch} to #${seq}`} onClose={onClose} isWide>
      <p class="muted">
        The branch continues from this checkpoint. The later checkpoints stay in the history, so the rewind can be
        undone.
      </p>
      {failure && <Failure failure={failure} />}
      {!data && !failure && <Skeleton lines={2} />}
      {data && data.effects.length === 0 && <p>No tool was called after this checkpoint.</p>}
      {data && data.effects.length > 0 && (
        <>
          <Callout kind="warn" title={`${plural(data.effects.length, "tool call")} after it cannot be undone`}>
            <p>A run from here may call these tools again.</p>
          </Callout>
          <div class="grid-wrap dialog-list">
            <table class="grid">
              <thead>
                <tr>
                  <th>Step</th>
                  <th>Tool</th>
                  <th>Arguments</th>
                  <th>Outcome</th>
                </tr>
              </thead>
              <tbody>
                {data.effects.map((effect, index) => (
                  <tr key={index}>
                    <td>{effect.step ?? "–"}</td>
                    <td>{effect.name}</td>
                    <td>
                      <code>{effect.arguments}</code>
                    </td>
                    <td>
                      <Tag kind={effect.outcome === "unknown" ? "warn" : "plain"}>{effect.outcome}</Tag>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
      <div class="form-actions">
        <WriteButton icon="rewind" kind="danger" onClick={rewind} isDisabled={isBusy || !data}>
          Rewind
        </WriteButton>
        <button type="button" class="button" onClick={onClose}>
          Keep as it is
        </button>
      </div>
    </Dialog>
  );
}
