/** What restoring a checkpoint would change, before it is restored. */
import type { JSX } from "preact";
import type { RestorePreview, RestoreRequest, RestoreResponse } from "../../api.js";
import { post, withParameters } from "../api/client.js";
import { useResource } from "../api/resource.js";
import { Link, navigate, paths } from "../app/router.js";
import type { ViewProps } from "../app/views.js";
import { useAction, WriteButton } from "../ui/action.js";
import { Changes } from "../ui/changes.js";
import { plural } from "../ui/format.js";
import { Icon } from "../ui/icon.js";
import { Callout, Failure, Skeleton } from "../ui/states.js";
import { showToast } from "../ui/toast.js";

export function Restore({ query }: ViewProps): JSX.Element {
  const id = query.get("id") ?? "";
  const { data, failure, reload } = useResource<RestorePreview>(withParameters("/api/restore", { id }));
  const { isBusy, run } = useAction();
  const restore = (): void =>
    run(async () => {
      const { before } = await post<RestoreResponse>("/api/restore", { id } satisfies RestoreRequest);
      showToast(`Restored. To undo it, restore checkpoint ${before.id}.`);
      navigate(data?.agent === undefined ? paths.session(data?.session ?? "") : paths.agent(data.agent));
    });
  if (failure) return <Failure failure={failure} retry={reload} />;
  if (!data) return <Skeleton lines={8} />;
  const { agent, session, changes, changeCount, restored, recreated, removed, erased } = data;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Restore preview">
      <header class="session-head">
        <Link to={agent === undefined ? paths.session(session ?? "") : paths.agent(agent)} class="back">
          <Icon name="left" />
          {agent ?? session}
        </Link>
        <h1>Restore a checkpoint</h1>
        <p class="muted">
          This is what would change. The state before is kept as a checkpoint, so a restore can be undone.
        </p>
      </header>
      <div class="page">
        {erased.length > 0 && (
          <Callout
            kind="warn"
            title={`${plural(erased.length, "conversation")} of this checkpoint were erased and stay erased`}
          >
            <p>{erased.join(", ")}</p>
          </Callout>
        )}
        <section class="section">
          <h2>Conversations</h2>
          {restored.length + recreated.length + removed.length === 0 && <p class="faint">None changes.</p>}
          <ul class="list">
            {restored.map(({ id: each, messagesBefore, messagesAfter }) => (
              <li key={each} class="list-row">
                <Link to={paths.conversation(each)}>{each}</Link>
                <span class="number">
                  {messagesBefore} → {plural(messagesAfter, "message")}
                </span>
              </li>
            ))}
            {recreated.map((each) => (
              <li key={each} class="list-row">
                <span>{each}</span>
                <span class="faint">is created again</span>
              </li>
            ))}
            {removed.map((each) => (
              <li key={each} class="list-row">
                <Link to={paths.conversation(each)}>{each}</Link>
                <span class="error-text">is removed</span>
              </li>
            ))}
          </ul>
        </section>
        <section class="section">
          <h2>{agent === undefined ? "State" : "The agent"}</h2>
          <Changes changes={changes} total={changeCount} />
        </section>
        <div class="form-actions section">
          <WriteButton kind="danger" icon="rewind" onClick={restore} isDisabled={isBusy}>
            Restore
          </WriteButton>
        </div>
      </div>
    </div>
  );
}
