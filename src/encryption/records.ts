/** The records of the encryption: the header, wrapped data keys, and the wrapped master keys of a provider. */
import { parseRecord } from "../records/index.js";
import { isString, listOf, objectOf, oneOf } from "../util/index.js";
import type { MasterKey } from "./master-key.js";
import type { WrappedMasterKey } from "./key-ring.js";

const FORMAT = 1;

/** What is known about the encryption of a store. */
export interface Header {
  /** A random id: sealed values of another store do not decrypt, even with the same keys. */
  readonly store: string;
  /** The fingerprint of the current master key. */
  readonly key: string;
  /**
   * The fingerprints of earlier master keys. A process whose ring still names one of them as current uses {@link key} instead, so
   * that nothing is encrypted with a former key after a rotation.
   */
  readonly former: readonly string[];
  /** `converting` while a plain store is being encrypted: some of its data is still plain. */
  readonly state: "ready" | "converting";
}

const isHeader = objectOf({
  format: oneOf(FORMAT),
  store: isString,
  key: isString,
  former: listOf(isString),
  state: oneOf("ready", "converting"),
  mac: isString,
});

function signedText({ store, key, former, state }: Header): string {
  return JSON.stringify({ format: FORMAT, store, key, former, state });
}

/** @param key the current master key, which authenticates the header */
export function encodeHeader(header: Header, key: MasterKey): string {
  const { store, former, state } = header;
  return JSON.stringify({ format: FORMAT, store, key: header.key, former, state, mac: key.sign(signedText(header)) });
}

/** Parses the header without authenticating it, because it names the key that authenticates it. */
export function parseHeader(value: string): Header & { readonly mac: string } {
  return parseRecord(value, isHeader, "encryption header");
}

export function isAuthentic(header: Header & { readonly mac: string }, key: MasterKey): boolean {
  return key.isSignature(header.mac, signedText(header));
}

/** A data key, encrypted by the master key with this fingerprint. */
export interface WrappedDataKey {
  readonly key: string;
  readonly wrapped: Uint8Array;
}

interface StoredDataKey {
  readonly k: string;
  readonly w: string;
}

const isStoredDataKey = objectOf({ k: isString, w: isString });

export function encodeDataKey({ key, wrapped }: WrappedDataKey): string {
  return JSON.stringify({ k: key, w: Buffer.from(wrapped).toString("base64") } satisfies StoredDataKey);
}

export function decodeDataKey(value: string): WrappedDataKey {
  const { k, w } = parseRecord<StoredDataKey>(value, isStoredDataKey, "data key");
  return { key: k, wrapped: Buffer.from(w, "base64") };
}

/** What a wrapped data key is bound to. @param record the key of its record */
export function placeOfDataKey({ store }: Header, record: string): string {
  return `data key\n${store}\n${record}`;
}

const isStoredMasterKey = objectOf({ name: isString, wrapped: isString });

export function encodeMasterKey({ name, wrapped }: WrappedMasterKey): string {
  return JSON.stringify({ name, wrapped: Buffer.from(wrapped).toString("base64") });
}

/** @param fingerprint the end of the record's key */
export function decodeMasterKey(fingerprint: string, value: string): WrappedMasterKey {
  const { name, wrapped } = parseRecord<{ name: string; wrapped: string }>(value, isStoredMasterKey, "wrapped key");
  return { fingerprint, name, wrapped: Buffer.from(wrapped, "base64") };
}
