/** What the server is, and what it permits. */
import { signal } from "@preact/signals";
import type { Meta } from "../../api.js";
import { get } from "./client.js";
import { clockOffset } from "./live.js";

export const meta = signal<Meta | undefined>(undefined);

export async function loadMeta(): Promise<void> {
  const loaded = await get<Meta>("/api/meta");
  clockOffset.value = loaded.now - Date.now();
  meta.value = loaded;
}

/** Whether the inspector accepts changes of the store. */
export function canWrite(): boolean {
  return meta.value?.write ?? false;
}
