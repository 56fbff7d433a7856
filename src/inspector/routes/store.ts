/** The store as a whole: counts, sizes, growth, retention, damage and backups. */
import { type PruneResult, type RetentionOptions, SavepointError } from "../../index.js";
import type {
  DamageView,
  Growth,
  LargestSessions,
  RetentionPreview,
  RetentionPreviewRequest,
  StoreView,
  VerifyRequest,
} from "../api.js";
import { measureGrowth } from "../data/growth.js";
import { byCheckpoints, byState, largestBy } from "../data/largest.js";
import { omitUndefined } from "../data/views.js";
import { badRequest } from "../http/errors.js";
import { boolean, object, optional, readFields, string } from "../http/input.js";
import { toWire } from "../http/responses.js";
import type { Call, Route } from "../http/router.js";
import type { Services } from "../services.js";

const MAX_BUCKETS = 500;
const MAX_LARGEST = 100;
const MAX_LISTED = 1000;
/** How long a request waits for the index, in milliseconds. */
const INDEX_WAIT = 400;

export function storeRoutes(services: Services): readonly Route[] {
  const { damage } = services;
  let isPreviewing = false;
  return [
    { method: "GET", path: "/api/store", run: () => describeStore(services) },
    {
      method: "GET",
      path: "/api/store/largest",
      query: ["by", "limit"],
      run: (call) => listLargest(services, call),
    },
    { method: "GET", path: "/api/store/growth", query: ["buckets"], run: (call) => readGrowth(services, call) },
    {
      method: "POST",
      path: "/api/store/retention-preview",
      async run(call): Promise<RetentionPreview> {
        if (isPreviewing) throw new SavepointError("BUSY", "Another preview is being computed. Try again in a moment.");
        isPreviewing = true;
        try {
          return await previewRetention(services, call);
        } finally {
          isPreviewing = false;
        }
      },
    },
    { method: "GET", path: "/api/store/damage", run: async (): Promise<DamageView> => damage.view() },
    {
      method: "POST",
      path: "/api/store/verify",
      async run({ body }): Promise<DamageView> {
        const request = { deep: optional(boolean), stop: optional(boolean) };
        return damage.verify(readFields<VerifyRequest>(await body(), request as never));
      },
    },
  ];
}

async function describeStore({ sp, stats, damage }: Services): Promise<StoreView> {
  const { value, at } = await stats.get();
  const policies = await sp.retention.list().all();
  return {
    url: sp.url,
    stats: value,
    at,
    lastShutdown: sp.lastShutdown,
    backups: (await sp.backups.known()).map((backup) => omitUndefined({ ...backup })),
    policies: policies.slice(0, MAX_LISTED).map(({ target, options }) => ({ target, options })),
    damage: damage.view(),
  };
}

async function listLargest(services: Services, { query }: Call): Promise<LargestSessions> {
  const { index, sizes } = services;
  const by = query.oneOf("by", ["bytes", "state", "checkpoints"]) ?? "bytes";
  const limit = query.limit(MAX_LARGEST, 20);
  await index.update(INDEX_WAIT);
  const { isIndexing } = index;
  if (by !== "bytes") {
    return { sessions: largestBy(index.rows(), by === "state" ? byState : byCheckpoints, limit), isIndexing };
  }
  const bytes = await sizes.get();
  const sessions = [...bytes].flatMap(([id, size]) => {
    const row = index.get(id);
    return row ? [{ ...row, bytes: size }] : [];
  });
  return { sessions: sessions.sort((a, b) => b.bytes - a.bytes).slice(0, limit), isIndexing };
}

async function readGrowth({ index, stats }: Services, { query }: Call): Promise<Growth> {
  const buckets = Math.max(1, query.count("buckets", MAX_BUCKETS) ?? 60);
  const [{ value }] = await Promise.all([stats.get(), index.update(INDEX_WAIT)]);
  return { ...measureGrowth(index.rows(), value.bytes, buckets, Date.now()), isIndexing: index.isIndexing };
}

const RETENTION_FIELDS: Readonly<Record<keyof RetentionOptions, true>> = {
  keepLast: true,
  keepHourly: true,
  keepDaily: true,
  keepWeekly: true,
  keepWithin: true,
  keepLabelled: true,
  kinds: true,
  ttl: true,
  expired: true,
};

async function previewRetention({ sp }: Services, { body }: Call): Promise<RetentionPreview> {
  const { session, agent, options } = readFields<RetentionPreviewRequest>(await body(), {
    session: optional(string),
    agent: optional(string),
    options: optional(object),
  } as never);
  if (session !== undefined && agent !== undefined) throw badRequest("Pass only one of `session` and `agent`.");
  for (const name of Object.keys(options ?? {})) {
    if (!Object.hasOwn(RETENTION_FIELDS, name)) throw badRequest(`A policy has no option ${JSON.stringify(name)}.`);
  }
  const target = omitUndefined({ session, agent });
  const rules: RetentionOptions | undefined = options ?? (await sp.retention.load(target));
  if (!rules) throw badRequest("The target has no stored policy: pass `options`.");
  return toPreview(await sp.prune({ ...rules, ...target, dryRun: true }));
}

function toPreview({ removed, gone, kept, bytes, items }: PruneResult): RetentionPreview {
  const reasons: { -readonly [Reason in keyof RetentionPreview["reasons"]]: number } = {};
  for (const reason of kept.flatMap((each) => each.reasons)) reasons[reason] = (reasons[reason] ?? 0) + 1;
  const newest = <Entry extends { readonly seq: number }>(entries: readonly Entry[]): Entry[] =>
    [...entries].sort((a, b) => b.seq - a.seq).slice(0, MAX_LISTED);
  const nameOf = ({ id, seq, sessionId, agent }: PruneResult["gone"][number]): RetentionPreview["gone"][number] =>
    omitUndefined({ id, seq, session: sessionId, agent });
  return {
    removed,
    kept: kept.length,
    bytes,
    items,
    reasons,
    gone: newest(gone).map(nameOf),
    keeping: newest(kept).map((each) => ({
      ...nameOf(each),
      reasons: each.reasons,
      ...(each.neededBy && {
        neededBy: toWire(each.neededBy.slice(0, 20)) as unknown as NonNullable<
          RetentionPreview["keeping"][number]["neededBy"]
        >,
      }),
    })),
  };
}
