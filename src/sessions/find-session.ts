/** Finding a session by its number, also where the list that says which it is cannot be read. */
import { scan, type Store } from "../store/index.js";
import { ALL_SESSIONS, decodeSession, sessionNumberKey } from "../records/index.js";

export async function findSessionByNumber(store: Store, number: number): Promise<string | undefined> {
  const [listed] = await store.get([sessionNumberKey(number)]);
  if (listed && "value" in listed) return listed.value;
  for await (const record of scan(store, ALL_SESSIONS)) {
    const [, id = "", branch] = record.key.split("\t");
    if (branch === undefined && "value" in record && decodeSession(record.value).number === number) return id;
  }
  return undefined;
}
