/** The journal of a branch, as a list and as a timeline. */
import type { CheckpointInfo } from "../../index.js";
import type { EffectsAfter, EffectView, JournalPage, Timeline } from "../api.js";
import { findEffect, type JournalRequest, readJournalPage, toEffectView, toHoleView } from "../data/journal-pages.js";
import { sessionNotFound } from "../data/state-cache.js";
import { buildTimeline } from "../data/timeline.js";
import { omitUndefined } from "../data/views.js";
import { notFound } from "../http/errors.js";
import { refOf } from "../http/input.js";
import { toWire } from "../http/responses.js";
import type { Call, Route } from "../http/router.js";
import type { Services } from "../services.js";

const MAX_EFFECTS = 1000;
const DEFAULT_VALUES = 500;
const MAX_VALUES = 20_000;
/** The characters of one value of a single effect. */
const MAX_VALUE = 8 * 1024 * 1024;

export function journalRoutes(services: Services): readonly Route[] {
  return [
    {
      method: "GET",
      path: "/api/sessions/:id/journal",
      query: ["branch", "cursor", "limit", "values"],
      run: (call) => readJournal(services, call),
    },
    {
      method: "GET",
      path: "/api/sessions/:id/timeline",
      query: ["branch", "cursor", "limit"],
      run: (call) => readTimeline(services, call),
    },
    {
      method: "GET",
      path: "/api/sessions/:id/effect",
      query: ["branch", "key"],
      run: (call) => readEffect(services, call),
    },
    {
      method: "GET",
      path: "/api/sessions/:id/effects-after",
      query: ["at", "branch"],
      run: (call) => listEffectsAfter(services, call),
    },
  ];
}

async function parseRequest({ sp }: Services, { params, query }: Call, values: number): Promise<JournalRequest> {
  const { id = "" } = params;
  if (!(await sp.sessions.load(id))) throw sessionNotFound(id);
  const [branch, cursor] = [query.text("branch") ?? "main", query.text("cursor")];
  return { session: id, branch, cursor, limit: query.limit(MAX_EFFECTS, 100), values };
}

async function readJournal(services: Services, call: Call): Promise<JournalPage> {
  const values = call.query.count("values", MAX_VALUES) ?? DEFAULT_VALUES;
  const { entries, next } = await readJournalPage(services.sp, await parseRequest(services, call, values));
  // A value that was cut is a string, which is a little longer.
  const max = values + 100;
  return omitUndefined({
    entries: entries.map((entry) => (entry.kind === "hole" ? toHoleView(entry) : toEffectView(entry, max))),
    next,
  });
}

async function readTimeline(services: Services, call: Call): Promise<Timeline> {
  const request = await parseRequest(services, call, 0);
  const { entries, older, next, isCut } = await readJournalPage(services.sp, request);
  const checkpoints = await checkpointsOf(services, request, entries);
  const steps = buildTimeline(entries, older, checkpoints);
  const last = steps.at(-1);
  if (isCut && last) steps[steps.length - 1] = { ...last, holes: [...last.holes, "the step has more effects"] };
  return omitUndefined({ steps, next, now: Date.now() });
}

/** The checkpoints that list these effects, and those between them; at most 1,000. */
async function checkpointsOf(
  { sp }: Services,
  { session, branch }: JournalRequest,
  entries: readonly { readonly checkpoint: { readonly seq: number } | undefined }[],
): Promise<CheckpointInfo[]> {
  const handle = sp.session(session, { branch });
  const seqs = entries.flatMap(({ checkpoint }) => (checkpoint ? [checkpoint.seq] : []));
  if (seqs.length === 0) {
    const head = await handle.head();
    return head ? [head] : [];
  }
  const [before, after] = [Math.max(...seqs) + 1, Math.min(...seqs) - 1];
  return handle.history({ allBranches: true, limit: 1000, before, ...(after >= 0 && { after }) }).all();
}

async function readEffect({ sp }: Services, { params: { id = "" }, query }: Call): Promise<EffectView> {
  const entry = await findEffect(sp, id, query.text("branch") ?? "main", query.required("key"));
  if (!entry) throw notFound("The journal has no such effect any more. Load it again.");
  return toEffectView(entry, MAX_VALUE);
}

async function listEffectsAfter({ sp, states }: Services, { params: { id = "" }, query }: Call): Promise<EffectsAfter> {
  const branch = query.text("branch") ?? "main";
  const info = await states.info(id, refOf(query), branch);
  const effects = await sp.session(id, { branch }).effectsAfter(info.id);
  return { effects: toWire(effects) as unknown as EffectsAfter["effects"] };
}
