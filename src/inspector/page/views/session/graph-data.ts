/** The branch graph of a session, loaded as far as it is scrolled, and kept current. */
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type BranchView, type CheckpointView, encodeId, type Graph, type History } from "../../../api.js";
import { type ApiFailure, get, sessionPath, withParameters } from "../../api/client.js";
import { useLive } from "../../api/live.js";
import { toApiFailure } from "../../api/resource.js";
import { type GraphNode, layOut, type LaneRow } from "./lanes.js";

/** A checkpoint in the graph. */
export interface Node extends GraphNode {
  readonly branch: string;
  readonly step: number;
  readonly createdAt: number;
  readonly kind: string;
  /** See `Graph`. */
  readonly flags: number;
}

export interface GraphData {
  readonly nodes: readonly Node[];
  readonly lanes: readonly LaneRow[];
  /** How many checkpoints there are, with those that are not loaded. */
  readonly total: number;
  readonly failure: ApiFailure | undefined;
  readonly isLoaded: boolean;
  /** Loads the graph up to this row. */
  readonly ensure: (index: number) => void;
  readonly indexOf: (seq: number) => number;
}

const FIRST_PORTION = 1000;
const PORTION = 10_000;

export function useGraph(id: string, branches: readonly BranchView[] | undefined): GraphData {
  const [nodes, setNodes] = useState<readonly Node[]>([]);
  const [total, setTotal] = useState(0);
  const [failure, setFailure] = useState<ApiFailure | undefined>();
  const [isLoaded, setLoaded] = useState(false);
  const state = useRef<{ nodes: readonly Node[]; next: number | undefined; isLoading: boolean; wanted: number }>({
    nodes: [],
    next: undefined,
    isLoading: false,
    wanted: 0,
  });

  const accept = useCallback((loaded: readonly Node[], graph: Graph) => {
    state.current.nodes = loaded;
    setNodes(loaded);
    setTotal(Math.max(graph.total, loaded.length));
    setLoaded(true);
    setFailure(undefined);
  }, []);

  /** Loads the newest rows, and keeps the older ones if there is no gap between them. */
  const loadNewest = useCallback(async () => {
    const graph = await get<Graph>(withParameters(sessionPath(id, "/graph"), { limit: FIRST_PORTION }));
    const fresh = toNodes(graph);
    const oldest = fresh.at(-1)?.seq ?? 0;
    const known = state.current.nodes;
    const isConnected = known.length > 0 && (known[0] as Node).seq >= oldest;
    const kept = isConnected ? known.filter(({ seq }) => seq < oldest) : [];
    if (kept.length === 0) state.current.next = graph.next;
    accept([...fresh, ...kept], graph);
  }, [id, accept]);

  const loadOlder = useCallback(async () => {
    const { next } = state.current;
    const graph = await get<Graph>(withParameters(sessionPath(id, "/graph"), { before: next, limit: PORTION }));
    state.current.next = graph.next;
    accept([...state.current.nodes, ...toNodes(graph)], graph);
  }, [id, accept]);

  const ensure = useCallback(
    (index: number) => {
      const { current } = state;
      current.wanted = Math.max(current.wanted, index);
      if (current.isLoading) return;
      current.isLoading = true;
      const load = async (): Promise<void> => {
        while (current.next !== undefined && current.nodes.length <= current.wanted + 300) await loadOlder();
      };
      load()
        .catch((error: unknown) => setFailure(toApiFailure(error)))
        .finally(() => (current.isLoading = false));
    },
    [loadOlder],
  );

  const refresh = useCallback(() => {
    loadNewest().catch((error: unknown) => setFailure(toApiFailure(error)));
  }, [loadNewest]);
  useEffect(refresh, [refresh]);
  useThrottledLive(id, refresh);

  const heads = branches?.flatMap(({ head }) => head ?? []).join() ?? "";
  const lanes = useMemo(() => layOut(nodes, heads.split(",").map(Number)), [nodes, heads]);
  const indexOf = useCallback((seq: number) => findIndex(nodes, seq), [nodes]);
  return { nodes, lanes, total, failure, isLoaded, ensure, indexOf };
}

/** Events while an agent runs are more frequent than needed, in milliseconds. */
const THROTTLE = 250;

/** Calls a function after changes of a session, not too often. */
export function useThrottledLive(id: string, reload: () => void): void {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const current = useRef(reload);
  current.current = reload;
  const schedule = (): void => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      current.current();
    }, THROTTLE);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  useLive(`session:${encodeId(id)}`, { session: ({ id: changed }) => changed === id && schedule(), reset: schedule });
}

function toNodes({ rows, branches, kinds }: Graph): Node[] {
  return rows.map(([seq, parent, branch, step, createdAt, kind, flags]) => ({
    seq,
    parent,
    branch: branches[branch] ?? "",
    step,
    createdAt,
    kind: kinds[kind] ?? "",
    flags,
  }));
}

/** Nodes are in descending order of seq. */
function findIndex(nodes: readonly Node[], seq: number): number {
  let [low, high] = [0, nodes.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const at = (nodes[middle] as Node).seq;
    if (at === seq) return middle;
    if (at > seq) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/** Labels, triggers and other details of the rows that are visible. */
export function useRowDetails(id: string): {
  readonly get: (seq: number) => CheckpointView | undefined;
  readonly show: (seqs: readonly number[]) => void;
} {
  const known = useRef(new Map<number, CheckpointView>());
  const pending = useRef(new Set<number>());
  const [, update] = useState(0);
  const show = useCallback(
    (seqs: readonly number[]) => {
      const missing = seqs.filter((seq) => !known.current.has(seq) && !pending.current.has(seq));
      const [newest] = missing;
      if (newest === undefined) return;
      for (const seq of missing) pending.current.add(seq);
      const path = withParameters(sessionPath(id, "/history"), { before: newest + 1, limit: 100 });
      get<History>(path)
        .then(({ checkpoints }) => {
          for (const each of checkpoints) known.current.set(each.seq, each);
          update((version) => version + 1);
        })
        .catch(() => {
          // The rows are shown without their details.
        })
        .finally(() => {
          for (const seq of missing) pending.current.delete(seq);
        });
    },
    [id],
  );
  useLive(`session:${encodeId(id)}`, {
    reset: () => {
      known.current.clear();
      update((version) => version + 1);
    },
    session: ({ id: changedId, checkpoints, changed }) => {
      if (changedId !== id) return;
      for (const seq of changed) known.current.delete(seq);
      for (const each of checkpoints) known.current.set(each.seq, each);
      update((version) => version + 1);
    },
  });
  return { get: (seq) => known.current.get(seq), show };
}
