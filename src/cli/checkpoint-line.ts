/** A checkpoint on one line, as `savepoint log` and `savepoint watch` print it, and the colours of a status. */
import type { AnyCheckpointInfo } from "../index.js";
import { formatAge, shortId } from "./format.js";
import type { Colors } from "./output.js";
import { sanitize } from "./terminal-text.js";

/** @param heads the branches whose head this checkpoint is */
export function formatCheckpointLine(
  info: AnyCheckpointInfo,
  colors: Colors,
  now: number,
  heads: readonly string[] = [],
): string {
  const { label, trigger, reason, kind } = info;
  const parts = [
    colors.yellow(shortId(info.id)),
    `#${info.seq}`,
    colors.dim(`step ${info.step}`),
    colorStatus(info.status, colors),
    colors.dim(formatAge(info.createdAt, now)),
    heads.length > 0 ? colors.cyan(`(${heads.map(sanitize).join(", ")})`) : "",
    label === undefined ? "" : colors.green(`"${sanitize(label)}"`),
    kind === "manual" ? "" : colors.dim(KINDS[kind]),
    trigger === undefined ? "" : colors.dim(sanitize(trigger)),
    reason === undefined ? "" : sanitize(reason),
    info.pinned ? colors.magenta("pinned") : "",
  ];
  return parts.filter((part) => part !== "").join("  ");
}

const KINDS = { automatic: "automatic", manual: "", preOperation: "before restore", recovery: "restored" };

export function colorStatus(status: string, colors: Colors): string {
  switch (status) {
    case "completed":
      return colors.green(status);
    case "waiting":
    case "queued":
      return colors.yellow(status);
    case "failed":
    case "halted":
    case "interrupted":
      return colors.red(status);
    default:
      return status;
  }
}
