/** The timeline of a run: its steps and effects as a waterfall. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Timeline as TimelineResponse, TimelineStep } from "../../../api.js";
import { usePages } from "../../api/pages.js";
import { sessionPath } from "../../api/client.js";
import { formatDuration } from "../../ui/format.js";
import { Command, Empty, Failure, Skeleton } from "../../ui/states.js";
import { Switch } from "../../ui/tabs.js";
import { serverNow } from "../../ui/clock.js";
import { useThrottledLive } from "../session/graph-data.js";
import { buildTimeScale, type TimeScale } from "./time-scale.js";
import { StepRows } from "./timeline-step.js";

/** With more steps, each has an axis of its own at first. */
const MANY_STEPS = 15;

export function Timeline({ id, branch }: { readonly id: string; readonly branch: string }): JSX.Element {
  const pages = usePages<TimelineResponse, TimelineStep>(
    sessionPath(id, "/timeline"),
    { branch: branch === "main" ? undefined : branch, limit: 200 },
    ({ steps, next }) => ({ entries: steps, next }),
    ({ turn, step, startedAt }) => `${turn}/${step}/${startedAt}`,
  );
  useThrottledLive(id, pages.reload);
  const [axis, setAxis] = useState<"all" | "step" | undefined>();
  const { entries, isLoaded, failure } = pages;
  const scroller = useRef<HTMLDivElement>(null);
  const isRunning = entries[0]?.endedAt === undefined;
  // A long or unfinished run is shown from its end: what happens now is there.
  useLayoutEffect(() => {
    const element = scroller.current;
    if (isLoaded && element && (isRunning || pages.hasMore)) element.scrollTop = element.scrollHeight;
  }, [isLoaded]);
  if (failure && !isLoaded) return <Failure failure={failure} retry={pages.reload} />;
  if (!isLoaded) return <Skeleton lines={8} />;
  if (entries.length === 0) return <NoTimeline />;
  const steps = [...entries].reverse();
  const shown = axis ?? (steps.length > MANY_STEPS ? "step" : "all");
  const scale = scaleOf(steps);
  return (
    <div class="scroll timeline" ref={scroller} tabIndex={0} role="region" aria-label="Timeline, oldest first">
      <div class="timeline-bar">
        <Switch
          label="Axis"
          value={shown}
          options={[
            ["all", "All steps"],
            ["step", "Each step"],
          ]}
          onChange={setAxis}
        />
        <Legend />
        {pages.hasMore && (
          <button type="button" class="button small" disabled={pages.isBusy} onClick={pages.more}>
            Show older steps
          </button>
        )}
      </div>
      <div class="waterfall">
        {shown === "all" && <Gaps scale={scale} />}
        {steps.map((step) => (
          <StepRows
            key={`${step.turn}/${step.step}/${step.startedAt}`}
            id={id}
            branch={branch}
            step={step}
            scale={shown === "all" ? scale : scaleOf([step])}
          />
        ))}
      </div>
    </div>
  );
}

const WAITS: readonly string[] = ["sleep", "ask"];

function scaleOf(steps: readonly TimelineStep[]): TimeScale {
  const now = serverNow();
  const spans = steps.flatMap((step) => step.spans);
  const starts = [...steps.map(({ startedAt }) => startedAt), ...spans.map(({ startedAt }) => startedAt)];
  const ends = [
    ...steps.map(({ endedAt, startedAt }) => endedAt ?? startedAt),
    ...spans.map(({ endedAt, startedAt, outcome }) => endedAt ?? (outcome === "running" ? now : startedAt)),
  ];
  const busy = spans
    .filter(({ kind }) => !WAITS.includes(kind))
    .map(({ startedAt, endedAt, outcome }) => ({
      from: startedAt,
      // A moment has a width too.
      to: Math.max(startedAt + 1, endedAt ?? (outcome === "running" ? now : startedAt + 1)),
    }));
  const from = Math.min(...starts);
  return buildTimeScale(busy, from, Math.max(from + 1, ...ends));
}

/** Waits that are drawn shorter than they were. */
function Gaps({ scale }: { readonly scale: TimeScale }): JSX.Element {
  return (
    <div class="gaps" aria-hidden="true">
      {scale.gaps.map(({ from, to, left, right }) => (
        <span
          key={from}
          class="gap"
          style={{ left: `${left * 100}%`, width: `${(right - left) * 100}%` }}
          title={`${formatDuration(to - from)} without work`}
        >
          {formatDuration(to - from)}
        </span>
      ))}
    </div>
  );
}

function Legend(): JSX.Element {
  const kinds = [
    ["llm", "model"],
    ["tool", "tool"],
    ["effect", "effect"],
    ["wait", "wait"],
  ];
  return (
    <ul class="legend" aria-label="Legend">
      {kinds.map(([kind, name]) => (
        <li key={kind}>
          <span class={`legend-mark kind-${kind}`} aria-hidden="true" />
          {name}
        </li>
      ))}
    </ul>
  );
}

export function NoTimeline(): JSX.Element {
  return (
    <Empty icon="clock" title="No effects recorded">
      <p>
        Calls of models and tools appear here when the session is a run: an agent whose steps call them through{" "}
        <code>run</code>.
      </p>
      <Command>{`await run.tool(call, () => refund(call.arguments))`}</Command>
    </Empty>
  );
}
