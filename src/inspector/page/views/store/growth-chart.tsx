/** The growth of a store over time. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Growth } from "../../../api.js";
import { formatBytes, formatDay, formatClock, formatExact, formatNumber } from "../../ui/format.js";

const [WIDTH, HEIGHT] = [960, 180];
const DAY = 86_400_000;

export function GrowthChart({ growth }: { readonly growth: Growth }): JSX.Element {
  const { bytes, checkpoints, sessions, from, width, isIndexing } = growth;
  const [at, setAt] = useState<number | undefined>();
  const count = bytes.length;
  if (count === 0) return <p class="faint">There is nothing to show yet.</p>;
  const most = Math.max(1, ...bytes);
  const tallest = Math.max(1, ...checkpoints);
  const step = WIDTH / count;
  const y = (value: number): number => HEIGHT - 4 - (value / most) * (HEIGHT - 16);
  const points = bytes.map((value, index) => `${(index + 0.5) * step} ${y(value)}`);
  const line = `M${points.join("L")}`;
  const shown = at ?? count - 1;
  const timeOf = (index: number): number => from + index * width;
  const formatTime = width * count > 3 * DAY ? formatDay : formatClock;
  const move = (event: KeyboardEvent): void => {
    const change = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (change === undefined) return;
    event.preventDefault();
    setAt(Math.min(count - 1, Math.max(0, shown + change)));
  };
  return (
    <figure class="panel chart">
      <figcaption>
        <span>
          <strong>{formatBytes(bytes[shown] ?? 0)}</strong> <span class="faint">stored</span>
        </span>
        <span>
          <strong>+{formatNumber(checkpoints[shown] ?? 0)}</strong> <span class="faint">checkpoints</span>
        </span>
        <span>
          <strong>+{formatNumber(sessions[shown] ?? 0)}</strong> <span class="faint">sessions</span>
        </span>
        <span class="faint" title={formatExact(timeOf(shown))}>
          {formatDay(timeOf(shown))}, {formatClock(timeOf(shown))}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="slider"
        tabIndex={0}
        aria-label="Growth of the store"
        aria-valuemin={0}
        aria-valuemax={count - 1}
        aria-valuenow={shown}
        aria-valuetext={`${formatExact(timeOf(shown))}: ${formatBytes(bytes[shown] ?? 0)}`}
        onKeyDown={move}
        onMouseLeave={() => setAt(undefined)}
        onMouseMove={(event) => {
          const box = event.currentTarget.getBoundingClientRect();
          setAt(Math.min(count - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * count))));
        }}
      >
        {checkpoints.map((value, index) => {
          const height = value === 0 ? 0 : Math.max(2, (value / tallest) * (HEIGHT * 0.6));
          return (
            <rect
              key={index}
              class={index === shown ? "chart-bar current" : "chart-bar"}
              x={index * step + step * 0.12}
              y={HEIGHT - height}
              width={step * 0.76}
              height={height}
            />
          );
        })}
        <path class="chart-area" d={`${line}L${WIDTH - step / 2} ${HEIGHT}L${step / 2} ${HEIGHT}Z`} />
        <path class="chart-line" d={line} />
      </svg>
      <div class="chart-axis faint">
        <span>{formatTime(from)}</span>
        <span class="chart-legend">
          <span class="legend-mark line" aria-hidden="true" /> stored bytes
          <span class="legend-mark bars" aria-hidden="true" /> new checkpoints, estimated
          {isIndexing && "; still reading"}
        </span>
        <span>{formatTime(from + width * count)}</span>
      </div>
    </figure>
  );
}
