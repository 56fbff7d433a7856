/** Numbers, sizes and times as text. */

const integers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1, notation: "compact" });

export function formatNumber(value: number): string {
  return integers.format(value);
}

/** Such as `950`, `12.4K` and `3.1M`. */
export function formatShort(value: number): string {
  return value < 10_000 ? integers.format(value) : short.format(value);
}

export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${integers.format(bytes)} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let [value, unit] = [bytes / 1000, 0];
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

export function formatCost(cost: number): string {
  return `$${cost.toFixed(cost !== 0 && Math.abs(cost) < 0.1 ? 4 : 2)}`;
}

const UNITS: readonly (readonly [number, string])[] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
];

/** Such as `12 ms`, `3.4 s`, `5 min 20 s` and `2 d 3 h`. */
export function formatDuration(milliseconds: number): string {
  const ms = Math.max(0, milliseconds);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const index = UNITS.findIndex(([size]) => ms >= size);
  const [size, unit] = UNITS[index] as readonly [number, string];
  const whole = Math.floor(ms / size);
  const next = UNITS[index + 1];
  const rest = next ? Math.floor((ms - whole * size) / next[0]) : 0;
  return next && rest > 0 && whole < 10 ? `${whole} ${unit} ${rest} ${next[1]}` : `${whole} ${unit}`;
}

/** Such as `just now`, `5 min ago` and `in 2 h`. */
export function formatRelative(time: number, now: number): string {
  const distance = now - time;
  const ms = Math.abs(distance);
  if (ms < 5000) return "just now";
  const [size, unit] = UNITS.find(([each]) => ms >= each) as readonly [number, string];
  const text = `${Math.floor(ms / size)} ${unit}`;
  return distance > 0 ? `${text} ago` : `in ${text}`;
}

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const day = new Intl.DateTimeFormat("en", { day: "numeric", month: "short" });

export function formatExact(time: number): string {
  return isTime(time) ? exact.format(time) : String(time);
}

export function formatClock(time: number): string {
  return isTime(time) ? clock.format(time) : String(time);
}

export function formatDay(time: number): string {
  return isTime(time) ? day.format(time) : String(time);
}

/** Whether a number is a time that a date can have: stores of others can contain any number. */
export function isTime(time: number): boolean {
  return Math.abs(time) <= 8.64e15;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatNumber(count)} ${count === 1 ? one : many}`;
}
