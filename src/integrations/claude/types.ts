/**
 * The part of the SDK's interface that a session store has, by its structure. The SDK is not imported, so a process without it
 * can read and write transcripts.
 */

/** Which transcript: that of a session, or with `subpath` that of one of its subagents. */
export interface SessionKey {
  /** The project, which the SDK derives from the working folder. */
  readonly projectKey: string;
  readonly sessionId: string;
  /** A transcript of a subagent, such as `subagents/agent-1`. */
  readonly subpath?: string;
}

/** One line of a transcript. */
export interface TranscriptEntry {
  type: string;
  uuid?: string;
  timestamp?: string;
  [field: string]: unknown;
}

/** The data of a session that the SDK lists without reading its transcript. */
export interface SessionSummary {
  sessionId: string;
  mtime: number;
  /** Belongs to the SDK. */
  data: Record<string, unknown>;
}

/** The SDK's function that adds entries to a summary. */
export type FoldSessionSummary = (
  previous: SessionSummary | undefined,
  key: { projectKey: string; sessionId: string },
  entries: TranscriptEntry[],
  options?: { mtime?: number },
) => SessionSummary;

/** The state of the session in which a transcript is stored. */
export interface TranscriptState {
  /** The transcript of the session. Missing if only transcripts of subagents were written. */
  readonly messages?: readonly TranscriptEntry[];
  /** The transcripts of subagents, by their subpaths. */
  readonly subagents: Readonly<Record<string, readonly TranscriptEntry[]>>;
}
