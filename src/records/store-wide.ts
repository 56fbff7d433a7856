/** Keys of records that belong to the store as a whole: its counter, policies, imports, open processes and garbage. */
import { type KeyRange, prefixRange } from "../store/index.js";
import { isCounter, isString, objectOf, type Shape } from "../util/index.js";
import { encodeNumber } from "./keys.js";
import { parseRecord } from "./parse-record.js";

/** The counter that numbers sessions and conversations. */
export const NEXT_NUMBER_KEY = "#";
/** The highest number. It leaves room for blocks of numbers below the largest safe integer. */
export const MAX_NUMBER = 2 ** 52;

/** A record that changes with every change of a retention policy, so that other processes notice. */
export const RETENTION_STAMP_KEY = "p";
export const STORE_RETENTION_KEY = "p\t";
export const agentRetentionKey = (agent: string): string => `p\ta\t${agent}`;
export const sessionRetentionKey = (session: string): string => `p\ts\t${session}`;
/** All retention policies, without the stamp. */
export const ALL_RETENTION_POLICIES: KeyRange = prefixRange("p\t");

/** A process that has the store open for writing. */
export const openProcessKey = (process: string): string => `o${process}`;
/** The ids of processes have only letters, digits, "-" and "_". */
export const ALL_OPEN_PROCESSES: KeyRange = { from: openProcessKey("-"), to: prefixRange("o").to };

/** A deleted session or conversation, by number, whose rows and tapes are not freed yet. */
export const garbageKey = (number: number): string => `x${encodeNumber(number)}`;
export const ALL_GARBAGE: KeyRange = prefixRange("x");

/**
 * Whether and how the store is encrypted. The key sorts directly before the registrations of processes, so that the first read of a
 * process that opens the store finds it.
 */
export const ENCRYPTION_KEY = "o";
/** The data key of what belongs to no session or conversation. */
export const STORE_DATA_KEY = "e\t-";
/** The data key of a session or conversation, by its number. It is deleted when nothing of it is left. */
export const dataKeyOf = (number: number): string => `e\t${encodeNumber(number)}`;
/** A wrapped key of a key provider, by its fingerprint. */
export const wrappedKeyOf = (fingerprint: string): string => `e\tk${fingerprint}`;
/** All keys that the encryption stores, wrapped. */
export const ALL_STORED_KEYS: KeyRange = prefixRange("e\t");
/** The wrapped keys of key providers. */
export const ALL_WRAPPED_KEYS: KeyRange = prefixRange(wrappedKeyOf(""));

/** A backup of the store, by its path, so that erasing data can report where it still is. */
export const backupKey = (path: string): string => `b\t${path}`;
export const pathOfBackupKey = (key: string): string => key.slice(2);
export const ALL_BACKUPS: KeyRange = prefixRange("b\t");

/** When a backup was written, and on which machine its path is valid. */
export interface BackupRecord {
  /** In milliseconds since 1970. */
  readonly createdAt: number;
  readonly host: string;
}

const isBackup: Shape = objectOf({ createdAt: isCounter, host: isString });

export const encodeBackup = ({ createdAt, host }: BackupRecord): string => JSON.stringify({ createdAt, host });

/** Parses the record of a backup. */
export const parseBackup = (value: string): BackupRecord => parseRecord(value, isBackup, "record of a backup");

/** An import in progress. */
export const importKey = (bundle: string): string => `v\t${bundle}`;
export const ALL_IMPORTS: KeyRange = prefixRange("v\t");
/** The offset between the numbers in the checkpoints of an imported agent and the numbers in this store. */
export const movedNumbersKey = (agent: string): string => `m\t${agent}`;

/** The progress of an unfinished import. */
export interface ImportRecord {
  /** By how much the numbers of the bundle are moved. */
  readonly by: number;
  /** When the import last stored something, in milliseconds since 1970. */
  readonly at: number;
  /** The numbers under which something is stored, with the hash of the section that it belongs to. */
  readonly numbers: readonly (readonly [number: number, section: string])[];
}
