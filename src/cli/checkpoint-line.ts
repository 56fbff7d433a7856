/** A checkpoint on one line, as `savepoint log` and `savepoint watch` print it. */
import type { AnyCheckpointInfo } from "../index.js";
import type { Colors } from "./output.js";
import { formatAge, sanitize, shortId } from "./terminal-text.js";

export function formatCheckpointLine(
  info: AnyCheckpointInfo,
  colors: Colors,
  now: number,
  heads: readonly string[] = [],
): string {
  const named = heads.length > 0 ? colors.cyan(`(${heads.map(sanitize).join(", ")})`) : "";
  const { label, trigger, reason, kind } = info;
  const said = [
    label === undefined ? "" : colors.green(`"${sanitize(label)}"`),
    kind === "manual" ? "" : colors.dim(KINDS[kind]),
    trigger === undefined ? "" : colors.dim(sanitize(trigger)),
    reason === undefined ? "" : sanitize(reason),
    info.pinned ? colors.magenta("pinned") : "",
  ];
  const parts = [
    colors.yellow(shortId(info.id)),
    `#${info.seq}`,
    colors.dim(`step ${info.step}`),
    colorStatus(info.status, colors),
    colors.dim(formatAge(info.createdAt, now)),
    named,
    ...said,
  ];
  return parts.filter((part) => part !== "").join("  ");
}

const KINDS = { automatic: "automatic", manual: "", preOperation: "before going back", recovery: "gone back to" };

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
