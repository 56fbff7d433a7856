/** Data of the API in components. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiFailure, get } from "./client.js";

/** What a request has returned so far. */
export interface Resource<Data> {
  /** The last response. While another path is loaded, that of the previous path. */
  readonly data: Data | undefined;
  readonly failure: ApiFailure | undefined;
  /** The response is not that of the current path. */
  readonly isStale: boolean;
  readonly reload: () => void;
}

/** Responses that are shown at once when a view is opened again, until the new ones arrive. */
const recent = new Map<string, unknown>();
const MAX_RECENT = 60;

function remember(path: string, data: unknown): void {
  recent.delete(path);
  recent.set(path, data);
  if (recent.size > MAX_RECENT) recent.delete(recent.keys().next().value as string);
}

/** Loads a path, and again when it changes. Nothing is loaded without a path. */
export function useResource<Data>(path: string | undefined): Resource<Data> {
  const [state, setState] = useState<{ path: string | undefined; data: Data | undefined; failure?: ApiFailure }>({
    path: undefined,
    data: undefined,
  });
  const loading = useRef<AbortController | undefined>(undefined);
  const load = useCallback(() => {
    if (path === undefined) return;
    loading.current?.abort();
    const controller = new AbortController();
    loading.current = controller;
    get<Data>(path, controller.signal).then(
      (data) => {
        if (controller.signal.aborted) return;
        remember(path, data);
        setState({ path, data });
      },
      (error: unknown) => {
        if (controller.signal.aborted) return;
        setState(({ data }) => ({ path, data, failure: toApiFailure(error) }));
      },
    );
  }, [path]);
  useEffect(() => {
    load();
    return () => loading.current?.abort();
  }, [load]);
  const isStale = state.path !== path;
  const kept = isStale && path !== undefined ? (recent.get(path) as Data | undefined) : undefined;
  return {
    data: kept ?? state.data,
    failure: isStale ? undefined : state.failure,
    isStale: isStale && kept === undefined,
    reload: load,
  };
}

export function toApiFailure(error: unknown): ApiFailure {
  return error instanceof ApiFailure ? error : new ApiFailure(0, "UNEXPECTED", (error as Error).message);
}
