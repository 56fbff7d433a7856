/** What the parts of a plain commit are about: which sessions and conversations they name, and which of them are encrypted. */
import { conversationNumberKey, sessionNumberKey } from "../records/index.js";
import type { Check, Commit, KeyRange } from "../store/index.js";
import { aroundEncryption, isReadable, keySourceOf, numberInValue } from "./key-kinds.js";

/** Whether a check of an encrypted record confirms the number of its session or conversation. */
export function confirms(checks: readonly Check[], owner: string): boolean {
  return checks.some((check) => {
    if (!isSealedCheck(check)) return false;
    const source = keySourceOf(check.key);
    return typeof source !== "number" && source.record === owner;
  });
}

/** A check of the value of an encrypted record. */
export type SealedCheck = Extract<Check, { readonly value: string | undefined }> & { readonly value: string };

export function isSealedCheck(check: Check): check is SealedCheck {
  return "value" in check && check.value !== undefined && !isReadable(check.key);
}

/** The numbers of sessions and conversations that the values of a commit contain, by the keys of their records. */
export function numbersIn({ checks = [], puts = [] }: Commit): Map<string, number> {
  const numbers = new Map<string, number>();
  for (const each of [...checks, ...puts]) {
    const value = "value" in each ? each.value : undefined;
    const number = value === undefined ? undefined : numberInValue(each.key, value);
    const source = number === undefined ? undefined : keySourceOf(each.key);
    if (number !== undefined && typeof source === "object") numbers.set(source.record, number);
  }
  return numbers;
}

/** The numbers that a commit assigns to new sessions and conversations: they have no data key yet. */
export function newNumbersIn({ puts = [] }: Commit): Set<number> {
  const fresh = new Set<number>();
  const written = new Set(puts.map(({ key }) => key));
  for (const { key, value } of puts) {
    const number = numberInValue(key, value);
    if (number === undefined) continue;
    if (written.has(sessionNumberKey(number)) || written.has(conversationNumberKey(number))) fresh.add(number);
  }
  return fresh;
}

/** The parts of what is deleted that are not records of the encryption. A single data key may be deleted. */
export function withoutEncryption(target: string | KeyRange): readonly (string | KeyRange)[] {
  if (typeof target === "string") return [target];
  return aroundEncryption(target);
}

/** The checks without those that are there twice. */
export function withoutRepetition(checks: readonly Check[]): readonly Check[] {
  const seen = new Set<string>();
  return checks.filter((check) => {
    const name = JSON.stringify(check);
    return seen.size < seen.add(name).size;
  });
}
