/** What a retention policy would remove and why the rest is kept, before anything is removed. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { RetentionPreview, RetentionPreviewRequest, StoreView } from "../../../api.js";
import { type ApiFailure, post } from "../../api/client.js";
import { toApiFailure, useResource } from "../../api/resource.js";
import type { RetentionOptions } from "../../api/types.js";
import { Link, paths } from "../../app/router.js";
import { formatBytes, formatNumber } from "../../ui/format.js";
import { Callout, Command, Failure } from "../../ui/states.js";
import { Tag } from "../../ui/text.js";
import { StoreTabs } from "./store-tabs.js";

type Numbers = "keepLast" | "keepHourly" | "keepDaily" | "keepWeekly";
const NUMBERS: readonly (readonly [Numbers, string])[] = [
  ["keepLast", "Newest of each branch"],
  ["keepHourly", "Hourly"],
  ["keepDaily", "Daily"],
  ["keepWeekly", "Weekly"],
];

export function Retention(): JSX.Element {
  const store = useResource<StoreView>("/api/store");
  const [session, setSession] = useState("");
  const [agent, setAgent] = useState("");
  const [numbers, setNumbers] = useState<Readonly<Partial<Record<Numbers, string>>>>({ keepLast: "10" });
  const [within, setWithin] = useState("");
  const [result, setResult] = useState<{
    readonly preview?: RetentionPreview;
    readonly failure?: ApiFailure;
    readonly isBusy?: boolean;
  }>({});
  const options = toOptions(numbers, within);
  const preview = (event: Event): void => {
    event.preventDefault();
    setResult({ isBusy: true });
    const request: RetentionPreviewRequest = {
      ...(session.trim() !== "" && { session: session.trim() }),
      ...(agent.trim() !== "" && { agent: agent.trim() }),
      ...(Object.keys(options).length > 0 && { options }),
    };
    post<RetentionPreview>("/api/store/retention-preview", request).then(
      (each) => setResult({ preview: each }),
      (error: unknown) => setResult({ failure: toApiFailure(error) }),
    );
  };
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Retention">
      <StoreTabs current="retention" />
      <div class="page">
        <section class="section">
          <h2>Policies in force</h2>
          {store.data?.policies.length === 0 && (
            <div class="panel teach">
              <p>Everything is kept. A policy removes old checkpoints, except those that are still needed:</p>
              <Command>npx savepoint prune --keep-last 20 --keep-daily 7 --dry-run</Command>
            </div>
          )}
          <ul class="list">
            {store.data?.policies.map(({ target, options: policy }, index) => (
              <li key={index} class="list-row">
                <span>{target.session ?? target.agent ?? "The whole store"}</span>
                <code>{JSON.stringify(policy)}</code>
              </li>
            ))}
          </ul>
        </section>
        <section class="section">
          <h2>Preview</h2>
          <p class="muted">Shows what a policy would remove. This removes nothing.</p>
          <form class="panel retention-form" onSubmit={preview}>
            <fieldset class="row wrap fields">
              <legend>Keep</legend>
              {NUMBERS.map(([name, text]) => (
                <label key={name} class="field">
                  <span>{text}</span>
                  <input
                    type="number"
                    min={0}
                    value={numbers[name] ?? ""}
                    onInput={({ currentTarget }) => setNumbers({ ...numbers, [name]: currentTarget.value })}
                  />
                </label>
              ))}
              <label class="field">
                <span>Younger than</span>
                <input
                  class="short"
                  placeholder="7d"
                  value={within}
                  onInput={({ currentTarget }) => setWithin(currentTarget.value)}
                />
              </label>
            </fieldset>
            <fieldset class="row wrap fields">
              <legend>Of</legend>
              <label class="field">
                <span>One session</span>
                <input
                  placeholder="all"
                  value={session}
                  onInput={({ currentTarget }) => setSession(currentTarget.value)}
                />
              </label>
              <label class="field">
                <span>One agent</span>
                <input placeholder="all" value={agent} onInput={({ currentTarget }) => setAgent(currentTarget.value)} />
              </label>
            </fieldset>
            <div class="form-actions">
              <button type="submit" class="button primary" disabled={result.isBusy}>
                {result.isBusy ? "Reading …" : "Preview"}
              </button>
            </div>
          </form>
          {result.failure && <Failure failure={result.failure} />}
          {result.preview && <Result preview={result.preview} />}
        </section>
      </div>
    </div>
  );
}

function toOptions(numbers: Readonly<Partial<Record<Numbers, string>>>, within: string): RetentionOptions {
  const counts = NUMBERS.flatMap(([name]) => {
    const text = numbers[name] ?? "";
    return text === "" ? [] : [[name, Number(text)] as const];
  });
  return {
    ...Object.fromEntries(counts),
    ...(within.trim() !== "" && { keepWithin: within.trim() as RetentionDuration }),
  };
}
type RetentionDuration = NonNullable<RetentionOptions["keepWithin"]>;

const REASONS: Readonly<Record<string, string>> = {
  head: "the head of a branch",
  pinned: "pinned",
  needed: "needed by another checkpoint, a branch or a run",
  labelled: "labelled",
  kind: "of another kind",
  last: "among the newest",
  hourly: "the newest of its hour",
  daily: "the newest of its day",
  weekly: "the newest of its week",
  within: "young enough",
  unexpired: "not expired",
};

function Result({ preview }: { readonly preview: RetentionPreview }): JSX.Element {
  const { removed, kept, bytes, reasons, gone, keeping } = preview;
  return (
    <>
      <Callout kind={removed > 0 ? "info" : "good"}>
        <p>
          Removes <strong>{formatNumber(removed)}</strong> of {formatNumber(removed + kept)} checkpoints, about{" "}
          <strong>{formatBytes(bytes)}</strong>.
        </p>
      </Callout>
      <div class="columns">
        <section>
          <h3>Why {formatNumber(kept)} are kept</h3>
          <ul class="list">
            {Object.entries(reasons).map(([reason, count]) => (
              <li key={reason} class="list-row">
                <span>{REASONS[reason] ?? reason}</span>
                <span class="number">{formatNumber(count ?? 0)}</span>
              </li>
            ))}
          </ul>
        </section>
        <section>
          <h3>Removed</h3>
          <Checkpoints entries={gone} />
        </section>
      </div>
      <section class="section">
        <h3>Kept</h3>
        <Checkpoints entries={keeping} />
      </section>
    </>
  );
}

const SHOWN = 40;

function Checkpoints({
  entries,
}: {
  readonly entries: readonly {
    readonly id: string;
    readonly seq: number;
    readonly session?: string;
    readonly agent?: string;
    readonly reasons?: readonly string[];
  }[];
}): JSX.Element {
  if (entries.length === 0) return <p class="faint">None.</p>;
  return (
    <ul class="list">
      {entries.slice(0, SHOWN).map(({ id, seq, session, agent, reasons }) => (
        <li key={id} class="list-row">
          {session === undefined ? (
            <span>
              {agent} #{seq}
            </span>
          ) : (
            <Link to={paths.checkpoint(session, seq)}>
              {session} #{seq}
            </Link>
          )}
          <span class="row wrap">
            {reasons?.map((reason) => (
              <Tag key={reason} title={REASONS[reason]}>
                {reason}
              </Tag>
            ))}
          </span>
        </li>
      ))}
      {entries.length > SHOWN && <li class="faint">and {formatNumber(entries.length - SHOWN)} more</li>}
    </ul>
  );
}
