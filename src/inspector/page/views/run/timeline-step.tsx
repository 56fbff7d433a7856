/** A step of a timeline: its spans, and where another process took over the run. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Takeover, TimelineSpan, TimelineStep } from "../../../api.js";
import { Link, paths } from "../../app/router.js";
import { serverNow } from "../../ui/clock.js";
import { formatClock, formatDuration, formatShort, plural } from "../../ui/format.js";
import { Icon, type IconName } from "../../ui/icon.js";
import { Tag } from "../../ui/text.js";
import { LoadedEffect } from "./effect.js";
import type { TimeScale } from "./time-scale.js";

interface StepProps {
  readonly id: string;
  readonly branch: string;
  readonly step: TimelineStep;
  readonly scale: TimeScale;
}

export function StepRows({ id, branch, step, scale }: StepProps): JSX.Element {
  const { startedAt, endedAt, seq, usage, spans, takeovers, holes } = step;
  const isParallel = spans.some(({ lane }) => lane > 0);
  return (
    <section class="step" aria-label={`Step ${step.step ?? "in progress"}`}>
      <header class="step-head">
        <h2>
          {step.step === undefined ? "Step in progress" : `Step ${step.step}`}
          {step.turn > 1 && <span class="faint"> · turn {step.turn}</span>}
        </h2>
        <span class="faint">
          {formatClock(startedAt)}
          {endedAt !== undefined && ` · ${formatDuration(endedAt - startedAt)}`}
          {usage?.tokens !== undefined && ` · ${formatShort(usage.tokens)} tokens`}
        </span>
        {isParallel && <Tag>parallel</Tag>}
        <span class="spacer" />
        {seq !== undefined && <Link to={paths.checkpoint(id, seq)} class="step-link">{`#${seq}`}</Link>}
      </header>
      {takeovers.map((takeover) => (
        <TakeoverRow key={takeover.to} takeover={takeover} />
      ))}
      {spans.map((span) => (
        <SpanRow key={span.key} id={id} branch={branch} span={span} scale={scale} />
      ))}
      {holes.map((reason) => (
        <p key={reason} class="error-text step-hole">
          Some effects cannot be read: {reason}
        </p>
      ))}
    </section>
  );
}

function TakeoverRow({ takeover }: { readonly takeover: Takeover }): JSX.Element {
  const { kind, lastAt, at, toWorker, fromWorker } = takeover;
  const isKill = kind === "interrupted";
  return (
    <p class={isKill ? "takeover kill" : "takeover"} title={`${fromWorker ?? "?"} → ${toWorker ?? "?"}`}>
      <Icon name={isKill ? "bolt" : "play"} />
      {isKill
        ? `Its process ended here. Another process took over after ${formatDuration(at - lastAt)}`
        : `Resumed after ${formatDuration(at - lastAt)}`}
    </p>
  );
}

const ICONS: Readonly<Record<string, IconName>> = {
  llm: "spark",
  tool: "tool",
  sleep: "clock",
  ask: "question",
  now: "clock",
};

/** What is remarkable about a span, in words. */
function remarksOf({
  attempts,
  replays,
  outcome,
  settledBy,
  error,
}: TimelineSpan): readonly (readonly [string, "plain" | "warn" | "bad" | "good"])[] {
  const remarks: (readonly [string, "plain" | "warn" | "bad" | "good"])[] = [];
  if (outcome === "unknown") remarks.push(["outcome unknown", "warn"]);
  if (outcome === "failed") remarks.push([error ?? "failed", "bad"]);
  if (outcome === "running") remarks.push(["running", "plain"]);
  if (outcome === "again") remarks.push(["will be called again", "plain"]);
  if (settledBy) remarks.push([settledBy === "answer" ? "settled by an answer" : "verified", "good"]);
  if (attempts > 1) remarks.push([plural(attempts, "attempt"), "warn"]);
  if (replays > 0) remarks.push([replays === 1 ? "replayed" : `replayed ${replays}×`, "plain"]);
  return remarks;
}

function SpanRow({
  id,
  branch,
  span,
  scale,
}: {
  readonly id: string;
  readonly branch: string;
  readonly span: TimelineSpan;
  readonly scale: TimeScale;
}): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const { kind, name, startedAt, endedAt, outcome, until } = span;
  const end = endedAt ?? (outcome === "running" ? serverNow() : (until ?? startedAt));
  const left = scale.at(startedAt);
  const right = Math.max(left, scale.at(Math.min(end, serverNow())));
  const isWait = kind === "sleep" || kind === "ask";
  const duration = endedAt === undefined ? undefined : formatDuration(endedAt - startedAt);
  const remarks = remarksOf(span);
  // Beside the end of the bar, or before its beginning if there is no space behind it.
  const isLate = remarks.length > 0 && right > 0.7 && left > 0.35;
  return (
    <div class="span">
      <button type="button" class="span-line" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span class="span-name">
          <Icon name={ICONS[kind] ?? "dot"} />
          <span class="clip" title={name}>
            {name}
          </span>
        </span>
        <span class="span-track">
          <span
            class={`bar kind-${isWait ? "wait" : kind === "llm" || kind === "tool" ? kind : "effect"} outcome-${outcome}`}
            style={{ left: `${left * 100}%`, width: `${(right - left) * 100}%` }}
          />
          <span
            class={isLate ? "span-text before" : "span-text"}
            style={isLate ? { right: `${(1 - left) * 100}%` } : { left: `${right * 100}%` }}
          >
            {duration ?? (outcome === "running" ? formatDuration(end - startedAt) : "")}
            {remarks.map(([text, tone]) => (
              <Tag key={text} kind={tone}>
                {text}
              </Tag>
            ))}
          </span>
        </span>
      </button>
      {isOpen && (
        <div class="span-details">
          <LoadedEffect id={id} branch={branch} effectKey={span.key} />
        </div>
      )}
    </div>
  );
}
