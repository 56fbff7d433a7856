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
