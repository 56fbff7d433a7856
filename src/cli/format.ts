/** Times, sizes, counts and names as text. */

const UNITS = [
  ["y", 365 * 86_400_000],
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
] as const;

/** The distance from now in one unit: "3d ago", "in 5m". */
export function formatAge(time: number, now: number): string {
  const distance = Math.abs(now - time);
  const [unit, length] = UNITS.find(([, each]) => distance >= each) ?? ["s", 1000];
  const amount = `${Math.floor(distance / length)}${unit}`;
  return time > now ? `in ${amount}` : `${amount} ago`;
}

/** A time in UTC, to the second: "2026-01-31 09:30:00Z". */
export function formatTime(time: number): string {
  return new Date(time)
    .toISOString()
    .replace("T", " ")
    .replace(/\.\d+Z$/, "Z");
}

/** The time of day in the time zone of the user: "09:30:00". */
export function formatClock(time: number): string {
  return new Date(time).toTimeString().slice(0, 8);
}

/** A size in decimal units: "9.4 kB". */
export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const power = Math.min(4, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** power;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

/** A number with a noun: "1 session", "1,200 sessions". */
export function formatCount(number: number, singular: string, plural = `${singular}s`): string {
  return `${number.toLocaleString("en-US")} ${number === 1 ? singular : plural}`;
}

/** The end of an id, which identifies a checkpoint in lists and on the command line. */
export function shortId(id: string): string {
  return id.slice(-8);
}

export function quote(name: string): string {
  return `"${name}"`;
}

/** A duration: "85 ms", "3.2 s", "4m 05s". */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${String(seconds % 60).padStart(2, "0")}s`;
  return `${Math.floor(seconds / 3600)}h ${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")}m`;
}

/** Tokens and cost: "1,204 tokens, cost 0.0312"; empty for none. */
export function formatUsage(usage: { readonly tokens?: number; readonly cost?: number } | undefined): string {
  const { tokens = 0, cost = 0 } = usage ?? {};
  const parts = [tokens > 0 ? formatCount(tokens, "token") : "", cost > 0 ? `cost ${Number(cost.toPrecision(4))}` : ""];
  return parts.filter(Boolean).join(", ");
}

/** A time in UTC in two parts: "2026-01-31" and "09:30:00". */
export function formatDateAndClock(time: number): { readonly date: string; readonly clock: string } {
  const [date = "", clock = ""] = formatTime(time).replace("Z", "").split(" ");
  return { date, clock };
}
