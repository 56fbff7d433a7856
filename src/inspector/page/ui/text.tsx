/** Times, numbers and other small texts. */
import type { JSX } from "preact";
import type { Status } from "../api/types.js";
import { now, serverNow } from "./clock.js";
import { formatBytes, formatCost, formatExact, formatNumber, formatRelative, formatShort, isTime } from "./format.js";
import { Icon, type IconName } from "./icon.js";

/** A relative time; the exact one is in the tooltip. */
export function Time({ at }: { readonly at: number }): JSX.Element {
  if (!isTime(at)) return <span>–</span>;
  // Reading the signal writes the time again with each tick.
  const current = Math.max(now.value, at > now.value ? serverNow() : 0);
  return (
    <time dateTime={new Date(at).toISOString()} title={formatExact(at)}>
      {formatRelative(at, current)}
    </time>
  );
}

export function Bytes({ value }: { readonly value: number }): JSX.Element {
  return <span title={`${formatNumber(value)} bytes`}>{formatBytes(value)}</span>;
}

export function Count({ value }: { readonly value: number | undefined }): JSX.Element {
  if (value === undefined) return <span class="faint">–</span>;
  return <span title={formatNumber(value)}>{formatShort(value)}</span>;
}

export function Cost({ value }: { readonly value: number | undefined }): JSX.Element {
  if (value === undefined) return <span class="faint">–</span>;
  return <span title={`$${value}`}>{formatCost(value)}</span>;
}

const ICONS: Readonly<Record<Status, IconName>> = {
  open: "dot",
  queued: "clock",
  running: "play",
  waiting: "pause",
  completed: "check",
  failed: "cross",
  halted: "stop",
  interrupted: "bolt",
};

/** The status of a session: a color, a shape and a word. */
export function StatusBadge({
  status,
  title,
}: {
  readonly status: Status;
  readonly title?: string | undefined;
}): JSX.Element {
  return (
    <span class={`badge status-${Object.hasOwn(ICONS, status) ? status : "open"}`} title={title}>
      <Icon name={ICONS[status] ?? "dot"} />
      {status}
    </span>
  );
}

export function Tag({
  children,
  kind = "plain",
  title,
}: {
  readonly children: JSX.Element | string | number;
  readonly kind?: "plain" | "accent" | "warn" | "bad" | "good";
  readonly title?: string | undefined;
}): JSX.Element {
  return (
    <span class={`tag tag-${kind}`} title={title}>
      {children}
    </span>
  );
}

/** A key of the keyboard. */
export function Key({ children }: { readonly children: string }): JSX.Element {
  return <kbd>{children}</kbd>;
}
