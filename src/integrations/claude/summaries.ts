/** Summaries of sessions. The SDK makes them; they are stored in the metadata of the checkpoints. */
import { SavepointError } from "../../index.js";
import type { FoldSessionSummary, SessionKey, SessionSummary, TranscriptEntry } from "./types.js";

const PACKAGE = "@anthropic-ai/claude-agent-sdk";

/** The data about a session in the metadata of its checkpoints. */
export interface Outline {
  /** When the transcript of the session was last written. Missing if it was never written. */
  readonly mtime?: number;
  /** The data of its summary. Missing if the SDK was not installed where the transcript was written. */
  readonly summary?: Record<string, unknown>;
}

/** Reads the outline in the metadata of a checkpoint; `undefined` if another program has saved the checkpoint. */
export function outlineIn(metadata: Readonly<Record<string, unknown>>): Outline | undefined {
  const outline: unknown = metadata["claude"];
  if (!isObject(outline)) return undefined;
  const { mtime, summary } = outline;
  const isIntact = (mtime === undefined || Number.isSafeInteger(mtime)) && (summary === undefined || isObject(summary));
  return isIntact ? (outline as Outline) : undefined;
}

/** Makes summaries with the SDK's function, which is loaded when it is first needed. */
export class Summaries {
  #fold: Promise<FoldSessionSummary | undefined> | undefined;

  constructor(fold?: FoldSessionSummary) {
    if (fold) this.#fold = Promise.resolve(fold);
  }

  /** The data of a summary after more entries; `undefined` if the SDK is not installed. */
  async extend(
    key: SessionKey,
    previous: Outline["summary"],
    entries: readonly TranscriptEntry[],
    mtime: number,
  ): Promise<Outline["summary"]> {
    const fold = await this.#load();
    return fold && foldEntries(fold, key, previous, entries, mtime);
  }

  /** The data of a summary after more entries. @throws `MISSING_DEPENDENCY` if the SDK is not installed */
  async require(
    key: SessionKey,
    previous: Outline["summary"],
    entries: readonly TranscriptEntry[],
    mtime: number,
  ): Promise<Record<string, unknown>> {
    const fold = await this.#load();
    if (fold) return foldEntries(fold, key, previous, entries, mtime);
    throw new SavepointError(
      "MISSING_DEPENDENCY",
      `Summaries of sessions need the package ${PACKAGE}, which is not installed where Savepoint is. Run: npm install ${PACKAGE}. In a bundle, pass the SDK's function: new SavepointSessionStore(sp, { foldSessionSummary }).`,
    );
  }

  #load(): Promise<FoldSessionSummary | undefined> {
    this.#fold ??= loadFold();
    return this.#fold;
  }
}

function foldEntries(
  fold: FoldSessionSummary,
  { projectKey, sessionId }: SessionKey,
  previous: Outline["summary"],
  entries: readonly TranscriptEntry[],
  mtime: number,
): Record<string, unknown> {
  const before: SessionSummary | undefined = previous && { sessionId, mtime, data: { ...previous } };
  return fold(before, { projectKey, sessionId }, [...entries], { mtime }).data;
}

/** The SDK's function; `undefined` if the SDK is not installed, or is older than the function. */
async function loadFold(): Promise<FoldSessionSummary | undefined> {
  // The name is not a literal, and the comments keep the call as it is: bundlers must not include what may not be installed.
  const name = PACKAGE;
  try {
    const sdk = (await import(/* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ name)) as {
      readonly foldSessionSummary?: FoldSessionSummary;
    };
    return sdk.foldSessionSummary;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | undefined)?.code;
  return code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND";
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
