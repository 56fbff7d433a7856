/** Tool calls without a result in a session without a run: with a form that gives them one, or removes them. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { CheckpointDetail, Done, ToolCallsRequest } from "../../../api.js";
import { post, sessionPath } from "../../api/client.js";
import { canWrite } from "../../api/meta.js";
import { useAction, WriteButton } from "../../ui/action.js";
import { plural } from "../../ui/format.js";
import { Icon } from "../../ui/icon.js";
import { JsonTree } from "../../ui/json-tree.js";
import { Command } from "../../ui/states.js";
import { showToast } from "../../ui/toast.js";
import { commandFor } from "../question-card.js";
import { readValue, ValueInput, type ValueText } from "../value-input.js";

type Call = CheckpointDetail["pendingToolCalls"][number];

export function PendingCalls({
  id,
  branch,
  calls,
  onDone,
}: {
  readonly id: string;
  readonly branch: string;
  readonly calls: readonly Call[];
  readonly onDone: () => void;
}): JSX.Element {
  const { isBusy, run } = useAction();
  const resolve = (resolution: ToolCallsRequest["resolution"]): void =>
    run(async () => {
      await post<Done>(sessionPath(id, "/tool-calls"), { branch, resolution } satisfies ToolCallsRequest);
      showToast("Saved as a new checkpoint.");
      onDone();
    });
  return (
    <section class="question pending-calls" aria-label="Tool calls without a result">
      <Icon name="tool" />
      <div class="question-body">
        <h2>{plural(calls.length, "tool call")} without a result</h2>
        <p class="muted">Most models refuse messages in which a tool call has no result.</p>
        {calls.map((call) => (
          <CallForm key={call.id} call={call} isBusy={isBusy} onResult={(result) => resolve({ [call.id]: result })} />
        ))}
        {canWrite() ? (
          <div class="form-actions">
            <WriteButton onClick={() => resolve("drop")} isDisabled={isBusy}>
              {calls.length === 1 ? "Remove the call" : "Remove all of these calls"}
            </WriteButton>
          </div>
        ) : (
          <div class="question-command">
            <p class="muted">This inspector is read-only. Start it with --write to answer here, or type:</p>
            <Command>{commandFor(id)}</Command>
          </div>
        )}
      </div>
    </section>
  );
}

function CallForm({
  call,
  isBusy,
  onResult,
}: {
  readonly call: Call;
  readonly isBusy: boolean;
  readonly onResult: (result: ToolCallsResult) => void;
}): JSX.Element {
  const [value, setValue] = useState<ValueText>({ text: "", form: "text" });
  const read = readValue(value);
  return (
    <>
      <div class="question-call">
        <code>{call.name}</code> <span class="faint">{call.id}</span>
        {call.arguments !== undefined && <JsonTree value={call.arguments} tools={{ depth: 2 }} />}
      </div>
      {canWrite() && (
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            if ("value" in read) onResult(read.value);
          }}
        >
          <ValueInput label={`What ${call.name} returned`} value={value} onChange={setValue} rows={2} />
          <div class="form-actions">
            <WriteButton type="submit" kind="primary" isDisabled={isBusy || !("value" in read) || value.text === ""}>
              Record this result
            </WriteButton>
          </div>
        </form>
      )}
    </>
  );
}

type ToolCallsResult = Exclude<ToolCallsRequest["resolution"], "drop">[string];
