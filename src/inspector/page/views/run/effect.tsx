/** An effect in full: arguments, result, idempotency key and outcome. */
import type { JSX } from "preact";
import type { EffectView } from "../../../api.js";
import { sessionPath, withParameters } from "../../api/client.js";
import { useResource } from "../../api/resource.js";
import { Link, paths } from "../../app/router.js";
import { CopyButton } from "../../ui/action.js";
import { formatDuration, formatExact } from "../../ui/format.js";
import { Icon } from "../../ui/icon.js";
import { JsonTree } from "../../ui/json-tree.js";
import { Failure, Skeleton } from "../../ui/states.js";
import { Cost, Count } from "../../ui/text.js";

export function LoadedEffect({
  id,
  branch,
  effectKey,
}: {
  readonly id: string;
  readonly branch: string;
  readonly effectKey: string;
}): JSX.Element {
  const { data, failure, reload } = useResource<EffectView>(
    withParameters(sessionPath(id, "/effect"), { branch: branch === "main" ? undefined : branch, key: effectKey }),
  );
  if (failure) return <Failure failure={failure} retry={reload} />;
  if (!data) return <Skeleton lines={2} />;
  return <EffectDetails id={id} branch={branch} effect={data} />;
}

export function EffectDetails({
  id,
  branch,
  effect,
}: {
  readonly id: string;
  readonly branch: string;
  readonly effect: EffectView;
}): JSX.Element {
  const { arguments: args, value, error, idempotencyKey, callId, seq, kind, outcome, holes, question } = effect;
  return (
    <div class="effect">
      <div class="effect-values">
        {args !== undefined && (
          <section>
            <p class="caption">Arguments</p>
            <JsonTree value={args} tools={{ depth: 2 }} />
          </section>
        )}
        <section>
          <p class="caption">Result</p>
          {error ? (
            <p class="error-text">
              {error.name}: {error.message}
            </p>
          ) : value === undefined ? (
            <p class="faint">{outcome === "recorded" ? "none" : outcome === "unknown" ? "unknown" : "not yet"}</p>
          ) : (
            <JsonTree value={value} tools={{ depth: 2 }} />
          )}
        </section>
      </div>
      {holes.map(({ path, reason }) => (
        <p key={path} class="error-text">
          {path}: {reason}
        </p>
      ))}
      {outcome === "unknown" && question === undefined && (
        <p class="muted">
          Its process ended before the result was recorded. When the run is resumed, the policy of the tool decides: by
          default it asks.
        </p>
      )}
      <Facts effect={effect} />
      <div class="form-actions">
        {seq !== undefined && (
          <Link to={paths.checkpoint(id, seq)} class="button small">
            Checkpoint #{seq}
          </Link>
        )}
        {kind === "tool" && seq !== undefined && callId !== undefined && outcome === "recorded" && (
          <Link
            to={paths.edit(id, seq, { call: callId, key: effect.key, branch: branch === "main" ? undefined : branch })}
            class="button small"
          >
            <Icon name="branch" />
            What if it had returned something else?
          </Link>
        )}
        {question !== undefined && (
          <Link to={paths.session(id, branch === "main" ? undefined : branch)} class="button small">
            <Icon name="question" />
            Answer the question
          </Link>
        )}
      </div>
      {idempotencyKey !== undefined && (
        <p class="effect-key">
          <span class="faint">Idempotency key</span> <code>{idempotencyKey}</code>
          <CopyButton text={idempotencyKey} label="Copy the idempotency key" />
        </p>
      )}
    </div>
  );
}

function Facts({ effect }: { readonly effect: EffectView }): JSX.Element {
  const { startedAt, duration, attempts, usage, callId, worker, epoch, settledBy, until } = effect;
  const facts: readonly (readonly [string, JSX.Element | string | undefined])[] = [
    ["Started", formatExact(startedAt)],
    ["Duration", duration === undefined ? undefined : formatDuration(duration)],
    ["Attempts", attempts > 1 ? String(attempts) : undefined],
    ["Wakes up", until === undefined ? undefined : formatExact(until)],
    ["Tokens", usage?.tokens === undefined ? undefined : <Count value={usage.tokens} />],
    ["Cost", usage?.cost === undefined ? undefined : <Cost value={usage.cost} />],
    ["Settled by", settledBy === undefined ? undefined : settledBy === "answer" ? "an answer" : "verify()"],
    ["Call id", callId],
    ["Process", worker],
    ["Claim", epoch === undefined ? undefined : `no. ${epoch}`],
  ];
  return (
    <dl class="facts">
      {facts.map(([name, value]) =>
        value === undefined ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}
