/** The record of a process that owns leases. All its leases expire together, so that one write renews them. */
import { type KeyRange, prefixRange } from "../store/index.js";
import { isCounter, isNumber, isString, objectOf, type ProcessIdentity } from "../util/index.js";
import { parseRecord } from "./parse-record.js";

/** A process, and when its leases expire. */
export interface OwnerRecord {
  /** When its leases expire, by the store's clock. */
  readonly until: number;
  readonly process: ProcessIdentity;
}

/** The expiry that a process records when it shuts down cleanly but could not release every session. */
export const CLEAN_SHUTDOWN = 0;

export const encodeOwner = (record: OwnerRecord): string => JSON.stringify(record);
export const decodeOwner = (value: string): OwnerRecord => parseRecord(value, isStoredOwner, "owner");

const isStoredOwner = objectOf({ until: isNumber, process: objectOf({ host: isString, pid: isCounter }) });

export const ownerKey = (owner: string): string => `h${owner}`;
export const ALL_OWNERS: KeyRange = prefixRange("h");
