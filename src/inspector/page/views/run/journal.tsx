/** The journal of a run: what its steps have called, and with which outcome. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { EffectView, HoleView, JournalPage, SessionDetail } from "../../../api.js";
import { sessionPath } from "../../api/client.js";
import type { Json } from "../../api/types.js";
import { usePages } from "../../api/pages.js";
import { formatDuration, formatExact, plural } from "../../ui/format.js";
import { Icon, type IconName } from "../../ui/icon.js";
import { More } from "../../ui/more.js";
import { Failure, Skeleton } from "../../ui/states.js";
import { Tag, Time } from "../../ui/text.js";
import { useThrottledLive } from "../session/graph-data.js";
import { EffectDetails, LoadedEffect } from "./effect.js";
import { NoTimeline } from "./timeline.js";

type Entry = EffectView | HoleView;

export function Journal({
  id,
  branch,
  query,
}: {
  readonly id: string;
  readonly branch: string;
  readonly detail: SessionDetail;
  readonly query: URLSearchParams;
  readonly reload: () => void;
}): JSX.Element {
  const pages = usePages<JournalPage, Entry>(
    sessionPath(id, "/journal"),
    { branch: branch === "main" ? undefined : branch, limit: 100, values: 300 },
    ({ entries, next }) => ({ entries, next }),
    (entry) => (entry.kind === "hole" ? `hole/${entry.turn}/${entry.seq}` : entry.key),
  );
  useThrottledLive(id, pages.reload);
  const { entries, isLoaded, failure } = pages;
  if (failure && !isLoaded) return <Failure failure={failure} retry={pages.reload} />;
  if (!isLoaded) return <Skeleton lines={8} />;
  if (entries.length === 0) return <NoTimeline />;
  return (
    <div class="scroll journal" tabIndex={0} role="region" aria-label="Journal, newest first">
      <ol class="entries">
        {entries.map((entry, index) => {
          const before = entries[index - 1];
          const isNewStep = !before || before.turn !== entry.turn || stepOf(before) !== stepOf(entry);
          return (
            <li key={entry.kind === "hole" ? `hole/${entry.turn}/${entry.seq}` : entry.key}>
              {isNewStep && <StepLine entry={entry} />}
              {entry.kind === "hole" ? (
                <p class="error-text entry-hole">Effects cannot be read: {entry.reason}</p>
              ) : (
                <EffectRow
                  id={id}
                  branch={branch}
                  effect={entry}
                  isOpenAtFirst={query.get("key") === entry.key || entry.outcome === "unknown"}
                />
              )}
            </li>
          );
        })}
      </ol>
      <More pages={pages} name="effects" />
    </div>
  );
}

function stepOf(entry: Entry): number | undefined {
  return entry.kind === "hole" ? undefined : entry.step;
}

function StepLine({ entry }: { readonly entry: Entry }): JSX.Element {
  const step = stepOf(entry);
  return (
    <h2 class="entry-step">
      {step === undefined ? (entry.kind === "hole" ? "Unreadable" : "Step in progress") : `Step ${step}`}
      {entry.turn > 1 && <span class="faint"> · turn {entry.turn}</span>}
    </h2>
  );
}

const ICONS: Readonly<Record<string, IconName>> = {
  llm: "spark",
  tool: "tool",
  sleep: "clock",
  ask: "question",
};

const OUTCOMES = {
  recorded: undefined,
  failed: ["failed", "bad"],
  running: ["running", "plain"],
  unknown: ["outcome unknown", "warn"],
  again: ["will be called again", "plain"],
} as const;

function EffectRow({
  id,
  branch,
  effect,
  isOpenAtFirst,
}: {
  readonly id: string;
  readonly branch: string;
  readonly effect: EffectView;
  readonly isOpenAtFirst: boolean;
}): JSX.Element {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const { kind, name, outcome, startedAt, duration, attempts, settledBy, error, value } = effect;
  const tag = OUTCOMES[outcome];
  return (
    <article class={`entry outcome-${outcome}`}>
      <button type="button" class="entry-line" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name="chevron" />
        <Icon name={ICONS[kind] ?? "dot"} />
        <span class="entry-name">
          {name} <span class="faint">{kind === "llm" ? "model" : kind}</span>
        </span>
        <span class="entry-values clip">
          {effect.arguments !== undefined && <code>{shorten(effect.arguments)}</code>}
          {error ? (
            <span class="error-text"> → {error.message}</span>
          ) : (
            value !== undefined && <code class="entry-result"> → {shorten(value)}</code>
          )}
        </span>
        <span class="entry-facts">
          {tag && <Tag kind={tag[1]}>{tag[0]}</Tag>}
          {settledBy && <Tag kind="good">{settledBy === "answer" ? "answered" : "verified"}</Tag>}
          {attempts > 1 && <Tag kind="warn">{plural(attempts, "attempt")}</Tag>}
          {duration !== undefined && <span class="number">{formatDuration(duration)}</span>}
          <span title={formatExact(startedAt)}>
            <Time at={startedAt} />
          </span>
        </span>
      </button>
      {isOpen &&
        (outcome === "recorded" || outcome === "failed" ? (
          <LoadedEffect id={id} branch={branch} effectKey={effect.key} />
        ) : (
          <EffectDetails id={id} branch={branch} effect={effect} />
        ))}
    </article>
  );
}

/** A value in one line. Of the reply of a model, its text and the tools that it calls. */
function shorten(value: Json): string {
  const text = typeof value === "string" ? value : (replyText(value) ?? JSON.stringify(value));
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
}

function replyText(value: Json): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const { role, content, toolCalls } = value;
  if (role !== "assistant" || typeof content !== "string") return undefined;
  const names = Array.isArray(toolCalls)
    ? toolCalls.flatMap((call) => {
        const name = typeof call === "object" && call !== null && !Array.isArray(call) ? call["name"] : undefined;
        return typeof name === "string" ? [`${name}()`] : [];
      })
    : [];
  return [content, ...names].filter((part) => part !== "").join(" ");
}
