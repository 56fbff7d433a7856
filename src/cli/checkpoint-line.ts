/** A checkpoint on one line, as `savepoint log` and `savepoint watch` print it, and the colours of a status. */
import type { AnyCheckpointInfo, CheckpointActivity } from "../index.js";
import { formatAge, formatDuration, formatUsage, shortId } from "./format.js";
import { type Colors, joinParts, type Styled, type Text } from "./text.js";

/** @param heads the branches whose head this checkpoint is */
export function formatCheckpointLine(
  info: AnyCheckpointInfo & { readonly activity?: CheckpointActivity["activity"] },
  colors: Colors,
  now: number,
  heads: readonly string[] = [],
): Styled {
  const { label, reason, kind } = info;
  const activity = describeActivity(info.activity, colors);
  const nodes = nodesOf(info.metadata);
  // A run or a graph has saved it and continued: what happened says more than its status.
  const isRunning = info.status === "running" && kind === "automatic";
  const parts = [
    colors.yellow(shortId(info.id)),
    `#${info.seq}`,
    colors.dim(`step ${info.step}`),
    isRunning ? "" : colorStatus(info.status, colors),
    colors.dim(formatAge(info.createdAt, now)),
    heads.length > 0 ? colors.cyan(`(${heads.join(", ")})`) : "",
    label === undefined ? "" : colors.green(`"${label}"`),
    activity.length > 0 || nodes !== "" ? "" : colors.dim(describeOrigin(info)),
    colors.cyan(nodes),
    ...activity,
    reason === undefined ? "" : reason,
    info.pinned ? colors.magenta("pinned") : "",
  ];
  return joinParts(parts);
}

/** The ends of a run. The status of the checkpoint says the same. */
const ENDS: readonly (string | undefined)[] = ["end", "error", "ask", "sleep", "halt"];
/** What a run saves during and after a step. */
const STEPS: readonly (string | undefined)[] = ["toolCall", "llmResponse", "step"];

/** Why a checkpoint was saved, if nothing is known to have happened before it. */
function describeOrigin(info: AnyCheckpointInfo & { readonly activity?: CheckpointActivity["activity"] }): string {
  const { kind, trigger = "", status } = info;
  if (kind === "manual") return trigger;
  if (kind !== "automatic") return `${describeKind(kind)}  ${trigger}`.trim();
  if (trigger === "") return kind;
  if (status !== "running" && status !== "open" && [...ENDS, ...STEPS].includes(trigger)) return "";
  // `watch` does not read what happened.
  return STEPS.includes(trigger) && "activity" in info ? "no new effects" : trigger;
}

/** The tools that were called since the parent, the reply of the model, usage and duration. */
function describeActivity(activity: CheckpointActivity["activity"], colors: Colors): Text[] {
  if (!activity) return [];
  const { tools, reply, usage, duration, effects, isPartial } = activity;
  const counts = new Map<string, number>();
  for (const { name, outcome } of tools) {
    const shown = outcome === "recorded" ? name : `${name} (${OUTCOMES[outcome] ?? outcome})`;
    counts.set(shown, (counts.get(shown) ?? 0) + 1);
  }
  const names = [...counts].map(([name, count]) => (count > 1 ? `${name} x${count}` : name)).join(", ");
  const text = reply?.replace(/\s+/g, " ");
  const words = text === undefined ? "" : `"${text.length > MAX_WORDS ? `${text.slice(0, MAX_WORDS)}…` : text}"`;
  const facts = [formatUsage(usage), duration === undefined ? "" : formatDuration(duration)].filter(Boolean).join(", ");
  const others =
    names === "" && words === "" && effects > 0 ? `${effects} ${effects === 1 ? "effect" : "effects"}` : "";
  return [names, others, colors.dim(facts), words, isPartial ? colors.dim("and more") : ""].filter(
    (part) => part !== "",
  );
}

const MAX_WORDS = 48;
/** Outcomes whose names do not explain themselves. */
const OUTCOMES: Readonly<Record<string, string>> = { unknown: "unknown outcome", again: "to be repeated" };

/** The nodes that ran before a checkpoint of a LangGraph thread, as the saver or, in earlier versions, LangGraph names them. */
function nodesOf(metadata: Readonly<Record<string, unknown>>): string {
  if (typeof metadata["savepoint:ns"] !== "string") return "";
  const { nodes } = metadata;
  if (Array.isArray(nodes)) return nodes.join(", ");
  const { writes } = (metadata["metadata"] ?? {}) as { writes?: unknown };
  return typeof writes === "object" && writes !== null ? Object.keys(writes).join(", ") : "";
}

/** The kind of a checkpoint that an operation has saved, in words. */
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
