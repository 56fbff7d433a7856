/** The scope of a survey, and its counts. */

/** What a survey checks, and how thoroughly. */
export interface SurveyOptions {
  /** Read every item and blob, not only records and the references in them. */
  readonly deep: boolean;
  /** The share of checkpoints that are checked, from 0 to 1. */
  readonly sample: number;
  /** Only this session. */
  readonly session?: string;
  /** Only this agent with its conversations and sessions. */
  readonly agent?: string;
  /** Raised as the survey proceeds. */
  readonly counts: SurveyCounts;
  /** Chooses the sample: returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly onProgress: () => void;
}

/** What was checked so far. */
export interface SurveyCounts {
  records: number;
  sessions: number;
  checkpoints: number;
  conversations: number;
  items: number;
  blobs: number;
}

/** The counts of a survey that has not started. */
export function emptyCounts(): SurveyCounts {
  return { records: 0, sessions: 0, checkpoints: 0, conversations: 0, items: 0, blobs: 0 };
}
