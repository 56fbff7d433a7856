/** Lists of the API that are loaded page by page. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type ApiFailure, get, type Parameters, withParameters } from "./client.js";
import { toApiFailure } from "./resource.js";

export interface Pages<Entry> {
  readonly entries: readonly Entry[];
  readonly isLoaded: boolean;
  readonly isBusy: boolean;
  readonly hasMore: boolean;
  readonly failure: ApiFailure | undefined;
  /** Loads the next page. */
  readonly more: () => void;
  /** Loads the first page again; entries of the other pages stay. */
  readonly reload: () => void;
}

interface State<Entry> {
  readonly key: string;
  readonly entries: readonly Entry[];
  readonly next: string | undefined;
  readonly isLoaded: boolean;
}

/** @param read the entries of a response, and the cursor of the next page */
export function usePages<Response, Entry>(
  path: string,
  parameters: Parameters,
  read: (response: Response) => { readonly entries: readonly Entry[]; readonly next?: string | undefined },
  keyOf: (entry: Entry) => string,
): Pages<Entry> {
  const key = withParameters(path, parameters);
  const empty: State<Entry> = { key, entries: [], next: undefined, isLoaded: false };
  const [state, setState] = useState<State<Entry>>(empty);
  const [failure, setFailure] = useState<ApiFailure | undefined>();
  const [isBusy, setBusy] = useState(false);
  const loading = useRef<AbortController | undefined>(undefined);

  const load = useCallback(
    (cursor: string | undefined) => {
      loading.current?.abort();
      const controller = new AbortController();
      loading.current = controller;
      setBusy(true);
      get<Response>(withParameters(path, { ...parameters, cursor }), controller.signal)
        .then(
          (response) => {
            if (controller.signal.aborted) return;
            const { entries, next } = read(response);
            setFailure(undefined);
            setState((before) => merge(before, { key, entries, next, isLoaded: true }, cursor !== undefined, keyOf));
          },
          (error: unknown) => {
            if (!controller.signal.aborted) setFailure(toApiFailure(error));
          },
        )
        .finally(() => {
          if (loading.current === controller) setBusy(false);
        });
    },
    [key],
  );

  useEffect(() => {
    load(undefined);
    return () => loading.current?.abort();
  }, [load]);
  const current = state.key === key ? state : empty;
  return {
    entries: current.entries,
    isLoaded: current.isLoaded,
    isBusy,
    hasMore: current.next !== undefined,
    failure,
    more: () => current.next !== undefined && load(current.next),
    reload: () => load(undefined),
  };
}

function merge<Entry>(
  before: State<Entry>,
  page: State<Entry>,
  isNext: boolean,
  keyOf: (entry: Entry) => string,
): State<Entry> {
  if (before.key !== page.key || (!isNext && !before.isLoaded)) return page;
  if (isNext) {
    const known = new Set(before.entries.map(keyOf));
    return { ...page, entries: [...before.entries, ...page.entries.filter((entry) => !known.has(keyOf(entry)))] };
  }
  const fresh = new Set(page.entries.map(keyOf));
  const isOnly = before.entries.length <= page.entries.length || page.next === undefined;
  if (isOnly) return page;
  const kept = before.entries.filter((entry) => !fresh.has(keyOf(entry)));
  return { ...page, entries: [...page.entries, ...kept], next: before.next };
}
