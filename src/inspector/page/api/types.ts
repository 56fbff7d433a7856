/** Types of the API that have no name of their own. */
import type {
  CheckpointView,
  EffectView,
  QueueView,
  RetentionPreviewRequest,
  SessionRow,
  StatePart,
} from "../../api.js";

/** Any JSON value. */
export type Json = StatePart["value"];
export type Status = SessionRow["status"];
export type CheckpointKind = CheckpointView["kind"];
export type EffectKind = EffectView["kind"];
export type QueueState = QueueView["state"];
export type RetentionOptions = NonNullable<RetentionPreviewRequest["options"]>;
