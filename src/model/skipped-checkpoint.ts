/** A damaged checkpoint that was stepped over. */
export interface SkippedCheckpoint {
  readonly id: string | undefined;
  readonly seq: number;
  readonly reason: string;
}
