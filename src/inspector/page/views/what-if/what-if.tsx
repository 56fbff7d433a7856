/** What if: another state, or another result of a tool, on a branch of its own. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { CheckpointDetail, Diff, EditRequest, EffectView, ForkRequest, ForkResponse } from "../../../api.js";
import { type ApiFailure, post, sessionPath, withParameters } from "../../api/client.js";
import { canWrite } from "../../api/meta.js";
import { toApiFailure, useResource } from "../../api/resource.js";
import { Link, navigate, paths } from "../../app/router.js";
import type { ViewProps } from "../../app/views.js";
import { READ_ONLY, useAction, WriteButton } from "../../ui/action.js";
import { Changes } from "../../ui/changes.js";
import { Icon } from "../../ui/icon.js";
import { Callout, Failure, Skeleton } from "../../ui/states.js";
import { showToast } from "../../ui/toast.js";
import { readValue, ValueInput, type ValueText, writeValue } from "../value-input.js";
import { type Edits, toChanges } from "./edits.js";
import { StateEditor } from "./state-editor.js";

export function WhatIf({ ids, query }: ViewProps): JSX.Element {
  const [id = "", seq = ""] = ids;
  const call = query.get("call");
  return (
    <div class="view">
      <header class="session-head">
        <Link to={paths.checkpoint(id, Number(seq))} class="back">
          <Icon name="left" />
          Checkpoint #{seq}
        </Link>
        <h1>{call === null ? "Edit and fork" : "Another result of a tool"}</h1>
        <p class="muted">
          {call === null
            ? "Change the state and fork: the original branch is unchanged, and a run of the new branch continues from the edited state."
            : "The new branch begins with the step of this tool call. When it is run, the step gets this result instead of the recorded one."}
        </p>
      </header>
      {!canWrite() && <Callout kind="info">{READ_ONLY}</Callout>}
      {call === null ? (
        <StateForm key={`${id}/${seq}`} id={id} seq={Number(seq)} />
      ) : (
        <ResultForm
          id={id}
          seq={Number(seq)}
          call={call}
          effectKey={query.get("key") ?? ""}
          branch={query.get("branch") ?? "main"}
        />
      )}
    </div>
  );
}

function StateForm({ id, seq }: { readonly id: string; readonly seq: number }): JSX.Element {
  const { data, failure, reload } = useResource<CheckpointDetail>(
    withParameters(sessionPath(id, "/checkpoint"), { at: seq, maxBytes: 200_000 }),
  );
  const [edits, setEdits] = useState<Edits>(new Map());
  if (failure) return <Failure failure={failure} retry={reload} />;
  if (!data) return <Skeleton lines={8} />;
  const request: EditRequest = { checkpoint: seq, changes: toChanges(edits) };
  return (
    <div class="what-if">
      <section class="what-if-edit" aria-label="State">
        <StateEditor id={id} detail={data} edits={edits} onEdits={setEdits} />
      </section>
      <section class="what-if-result" aria-label="Changes">
        <Preview id={id} request={request} isEmpty={edits.size === 0} />
        <ForkForm id={id} request={request} isReady={edits.size > 0} />
      </section>
    </div>
  );
}

function ResultForm({
  id,
  seq,
  call,
  effectKey,
  branch,
}: {
  readonly id: string;
  readonly seq: number;
  readonly call: string;
  readonly effectKey: string;
  readonly branch: string;
}): JSX.Element {
  const { data, failure, reload } = useResource<EffectView>(
    withParameters(sessionPath(id, "/effect"), { branch: branch === "main" ? undefined : branch, key: effectKey }),
  );
  const [value, setValue] = useState<ValueText | undefined>();
  if (failure) return <Failure failure={failure} retry={reload} />;
  if (!data) return <Skeleton lines={5} />;
  const recorded = writeValue(data.value ?? null);
  const text = value ?? recorded;
  const read = readValue(text);
  const isChanged = text.text !== recorded.text || text.form !== recorded.form;
  const request: EditRequest = { checkpoint: seq, results: "value" in read ? { [call]: read.value } : {} };
  return (
    <div class="what-if">
      <section class="what-if-edit" aria-label="Result">
        <h2>
          <code>{data.name}</code>
        </h2>
        <ValueInput
          label="Result"
          value={text}
          onChange={setValue}
          rows={10}
          hint="Later effects of the step may depend on the result, so they are dropped."
        />
      </section>
      <section class="what-if-result" aria-label="Changes">
        <h2>Changes</h2>
        {isChanged && "value" in read ? (
          <Changes
            changes={[{ op: "replace", path: `/${call}`, before: data.value ?? null, value: read.value }]}
            total={1}
          />
        ) : (
          <p class="faint">Change the result to see the difference.</p>
        )}
        <ForkForm id={id} request={request} isReady={isChanged && "value" in read} />
      </section>
    </div>
  );
}

/** The time after the last edit until the changes are computed, in milliseconds. */
const PAUSE = 150;

function Preview({
  id,
  request,
  isEmpty,
}: {
  readonly id: string;
  readonly request: EditRequest;
  readonly isEmpty: boolean;
}): JSX.Element {
  const [state, setState] = useState<{ readonly diff?: Diff; readonly failure?: ApiFailure }>({});
  const key = JSON.stringify(request);
  useEffect(() => {
    if (isEmpty) {
      setState({});
      return undefined;
    }
    let isCurrent = true;
    const timer = setTimeout(() => {
      post<Diff>(sessionPath(id, "/preview"), request).then(
        (diff) => isCurrent && setState({ diff }),
        (error: unknown) => isCurrent && setState({ failure: toApiFailure(error) }),
      );
    }, PAUSE);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [id, key]);
  return (
    <>
      <h2>Changes</h2>
      {isEmpty && <p class="faint">Edit a value to see what the new branch begins with.</p>}
      {state.failure && <Failure failure={state.failure} />}
      {state.diff && <Changes changes={state.diff.changes} total={state.diff.total} />}
    </>
  );
}

function ForkForm({
  id,
  request,
  isReady,
}: {
  readonly id: string;
  readonly request: EditRequest;
  readonly isReady: boolean;
}): JSX.Element {
  const [branch, setBranch] = useState("");
  const [label, setLabel] = useState("");
  const { isBusy, run } = useAction();
  const isResult = request.results !== undefined;
  const fork = (event: Event): void => {
    event.preventDefault();
    if (!isReady) return;
    run(async () => {
      const body: ForkRequest = {
        ...request,
        ...(branch.trim() !== "" && { branch: branch.trim() }),
        ...(label.trim() !== "" && !isResult && { label: label.trim() }),
      };
      const forked = await post<ForkResponse>(sessionPath(id, "/fork"), body);
      showToast(`Forked branch ${forked.branch}.`);
      const query = { branch: forked.branch };
      navigate(forked.head ? paths.checkpoint(id, forked.head.seq, query) : paths.session(id, forked.branch));
    });
  };
  return (
    <form class="form panel fork-form" onSubmit={fork}>
      <label class="field">
        <span>Name of the branch</span>
        <input value={branch} placeholder="generated" onInput={({ currentTarget }) => setBranch(currentTarget.value)} />
      </label>
      {!isResult && (
        <label class="field">
          <span>Label (optional)</span>
          <input value={label} onInput={({ currentTarget }) => setLabel(currentTarget.value)} />
        </label>
      )}
      <div class="form-actions">
        <WriteButton type="submit" kind="primary" icon="branch" isDisabled={isBusy || !isReady}>
          Fork
        </WriteButton>
      </div>
      <p class="field-hint">
        The fork is not run. Run it with <code>sp.run(agent, {"{ session, branch }"})</code>, or queue it for a worker.
      </p>
    </form>
  );
}
