/** How checkpoints are called. */
import type { CheckpointView } from "../../../api.js";

type Named = Pick<CheckpointView, "kind" | "step"> &
  Partial<Pick<CheckpointView, "label" | "description" | "trigger">> & {
    readonly status: string;
  };

const STATUSES: Readonly<Record<string, string>> = {
  completed: "Completed",
  failed: "Failed",
  halted: "Halted",
  waiting: "Waiting",
};

/** The label of a checkpoint, or else why it was saved. */
export function nameOf({ label, kind, status, description, trigger, step }: Named): string {
  if (label !== undefined) return label;
  if (kind === "preOperation") return `Before the ${trigger ?? "operation"}`;
  if (kind === "recovery" && trigger === "rewind") return "Rewound";
  const ending = STATUSES[status];
  if (ending !== undefined) return ending;
  if (trigger === "start") return "Start";
  if (trigger === "step") return `Step ${step}`;
  return description ?? trigger ?? "Checkpoint";
}
