/** A checkpoint on one line, as `savepoint log` and `savepoint watch` print it, and the colours of a status. */
import type { AnyCheckpointInfo } from "../index.js";
import { formatAge, shortId } from "./format.js";
import { type Colors, joinParts, type Styled, type Text } from "./text.js";

/** @param heads the branches whose head this checkpoint is */
export function formatCheckpointLine(
  info: AnyCheckpointInfo,
  colors: Colors,
  now: number,
  heads: readonly string[] = [],
): Styled {
  const { label, trigger, reason, kind } = info;
  const parts = [
    colors.yellow(shortId(info.id)),
    `#${info.seq}`,
    colors.dim(`step ${info.step}`),
    colorStatus(info.status, colors),
    colors.dim(formatAge(info.createdAt, now)),
    heads.length > 0 ? colors.cyan(`(${heads.join(", ")})`) : "",
    label === undefined ? "" : colors.green(`"${label}"`),
    kind === "manual" ? "" : colors.dim(describeKind(kind)),
    trigger === undefined ? "" : colors.dim(trigger),
    reason === undefined ? "" : reason,
    info.pinned ? colors.magenta("pinned") : "",
  ];
  return joinParts(parts);
}

/** A checkpoint kind in words. A `manual` checkpoint needs none. */
function describeKind(kind: string): string {
  if (kind === "preOperation") return "before restore";
  return kind === "recovery" ? "restored" : kind;
}

export function colorStatus(status: string, colors: Colors): Text {
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
