/** The visible part of a list that is too long to load: rows by their position, loaded in portions. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { SessionPage, SessionQuery, SessionRow } from "../../../api.js";
import { type ApiFailure, get, withParameters } from "../../api/client.js";
import { useLive } from "../../api/live.js";
import { toApiFailure } from "../../api/resource.js";
import { counts } from "../../app/navigation.js";

const PORTION = 100;
/** While the list changes all the time, it is loaded again at most this often, in milliseconds. */
const REFRESH = 600;
/** While the server builds its index, in milliseconds. */
const POLL = 1000;

export interface SessionWindow {
  /** Counts and filters; missing until the first portion is there. */
  readonly page: SessionPage | undefined;
  readonly failure: ApiFailure | undefined;
  readonly row: (index: number) => SessionRow | undefined;
  /** Loads what is missing of these rows. */
  readonly show: (first: number, last: number) => void;
  readonly reload: () => void;
}

export type SessionFilter = Omit<SessionQuery, "offset" | "limit">;

export function useSessionWindow(filter: SessionFilter): SessionWindow {
  const key = JSON.stringify(filter);
  const [page, setPage] = useState<SessionPage | undefined>();
  const [failure, setFailure] = useState<ApiFailure | undefined>();
  const portions = useRef({ key, rows: new Map<number, readonly SessionRow[]>(), requested: new Set<number>() });
  const visible = useRef<readonly [number, number]>([0, 0]);
  if (portions.current.key !== key) {
    // The rows of the last filter stay until the first ones of this filter are there.
    portions.current = { key, rows: portions.current.rows, requested: new Set() };
    visible.current = [0, 0];
  }

  const load = useCallback(
    (portion: number, isRefresh = false) => {
      const target = portions.current;
      if (target.requested.has(portion) && !isRefresh) return;
      const isFirst = target.requested.size === 0;
      target.requested.add(portion);
      const query = { ...(JSON.parse(key) as SessionFilter), offset: portion * PORTION, limit: PORTION };
      get<SessionPage>(withParameters("/api/sessions", query)).then(
        (loaded) => {
          if (portions.current !== target) return;
          if (isFirst && !isRefresh) target.rows = new Map();
          target.rows.set(portion, loaded.sessions);
          setPage(loaded);
          setFailure(undefined);
          counts.value = { asking: loaded.asking, total: loaded.total };
        },
        (error: unknown) => {
          target.requested.delete(portion);
          if (portions.current === target) setFailure(toApiFailure(error));
        },
      );
    },
    [key],
  );

  const show = useCallback(
    (first: number, last: number) => {
      visible.current = [Math.floor(first / PORTION), Math.floor(last / PORTION)];
      for (let portion = visible.current[0]; portion <= visible.current[1]; portion++) load(portion);
    },
    [load],
  );

  /** Loads the visible portions again, and forgets the others. */
  const reload = useCallback(() => {
    const { rows, requested } = portions.current;
    const [first, last] = visible.current;
    for (const portion of requested) {
      if (portion >= first && portion <= last) load(portion, true);
      else {
        requested.delete(portion);
        rows.delete(portion);
      }
    }
  }, [load]);

  useEffect(() => load(0), [load]);
  useRefresh(reload, page, portions);
  return {
    page,
    failure,
    row: (index) => portions.current.rows.get(Math.floor(index / PORTION))?.[index % PORTION],
    show,
    reload,
  };
}

/** Keeps the rows current: changed rows at once, their order a moment later. */
function useRefresh(
  reload: () => void,
  page: SessionPage | undefined,
  portions: { readonly current: { readonly rows: Map<number, readonly SessionRow[]> } },
): void {
  const [, update] = useState(0);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  // The filter can change before the timer ends.
  const latest = useRef(reload);
  latest.current = reload;
  const schedule = (delay: number): void => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      latest.current();
    }, delay);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => {
    if (page?.isIndexing) schedule(POLL);
  });
  useLive("sessions", {
    reset: () => schedule(0),
    sessions: ({ rows: changed }) => {
      const byId = new Map(changed.map((row) => [row.id, row]));
      for (const [portion, rows] of portions.current.rows) {
        if (rows.some(({ id }) => byId.has(id))) {
          portions.current.rows.set(
            portion,
            rows.map((row) => byId.get(row.id) ?? row),
          );
        }
      }
      update((version) => version + 1);
      schedule(REFRESH);
    },
  });
}
