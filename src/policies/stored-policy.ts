/** Retention policies as they are stored. */
import { randomUUID } from "node:crypto";
import type { Put, Store } from "../store/index.js";
import { RETENTION_STAMP_KEY } from "../records/index.js";
import { parseRetentionOptions, type RetentionOptions, type RetentionRules } from "./rules.js";

/** A policy that was read from a store. */
export interface StoredPolicy {
  readonly value: string;
  /** `undefined` if the policy is damaged: then nothing is removed. */
  readonly rules: RetentionRules | undefined;
}

/** Encodes options with all durations in milliseconds. JSON has no infinity: it is written as `null`. */
export function encodePolicy(options: RetentionOptions): string {
  const { last, hourly, daily, weekly, within, ttl } = parseRetentionOptions(options);
  const { keepLast, keepHourly, keepDaily, keepWeekly, keepLabelled, kinds, expired } = options;
  return JSON.stringify({
    ...(keepLast !== undefined && { keepLast: last }),
    ...(keepHourly !== undefined && { keepHourly: hourly }),
    ...(keepDaily !== undefined && { keepDaily: daily }),
    ...(keepWeekly !== undefined && { keepWeekly: weekly }),
    ...(within !== undefined && { keepWithin: within }),
    ...(keepLabelled !== undefined && { keepLabelled: Boolean(keepLabelled) }),
    ...(kinds !== undefined && { kinds }),
    ...(ttl !== undefined && { ttl }),
    ...(expired && { expired: true }),
  });
}

export function decodePolicy(value: string): RetentionOptions {
  const stored = JSON.parse(value) as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(stored).map(([name, each]) => [name, each === null ? Number.POSITIVE_INFINITY : each]),
  );
}

/** The put that every change of a policy includes, so that other processes read the policies again. */
export const newPolicyStamp = (): Put => ({ key: RETENTION_STAMP_KEY, value: randomUUID() });

/** The parts of a commit that remove the policies under these keys, with the session or agent they belong to. */
export async function buildPolicyRemoval(
  store: Store,
  keys: readonly string[],
): Promise<{ deletes: string[]; puts: Put[] }> {
  const exists = (await store.get(keys)).some((record) => record !== undefined);
  return { deletes: [...keys], puts: exists ? [newPolicyStamp()] : [] };
}
