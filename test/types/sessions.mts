// What TypeScript knows about sessions: compiled with an old and a new compiler, never run.
import {
  applyChanges,
  type Change,
  type Checkpoint,
  type CheckpointInfo,
  isSavepointError,
  Savepoint,
  type SavepointErrorCode,
  type Session,
  type StoredClass,
} from "savepoint";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function typed<_T extends true>(): void {}

class Money {
  constructor(readonly amount: number) {}
}
const money: StoredClass<Money, number> = {
  name: "Money",
  class: Money,
  encode: (value) => value.amount,
  decode: (amount) => new Money(amount),
};
const sp = await Savepoint.open("sqlite:./typed.db", { classes: [money], on: { damage: (event) => event.reason } });

interface Trip {
  city: string;
  messages: { role: string; content: string }[];
}
const session = sp.session<Trip>("trip", { agent: "planner" });
const saved = await session.save({ city: "Lisbon", messages: [] });
typed<Equal<typeof saved, CheckpointInfo>>();
const latest = await session.latest();
typed<Equal<typeof latest, Checkpoint<Trip> | undefined>>();
if (latest) typed<Equal<typeof latest.state, Trip>>();
// @ts-expect-error a state without its messages
await session.save({ city: "Porto" });
// @ts-expect-error an unknown kind
await session.save({ city: "Porto", messages: [] }, { kind: "sometimes" });
for await (const info of session.history({ limit: 10 })) {
  typed<Equal<typeof info, CheckpointInfo>>();
  // @ts-expect-error listing has no states
  void info.state;
}
const whatIf = await session.fork(saved.id, { branch: "what-if", state: { city: "Porto", messages: [] } });
typed<Equal<typeof whatIf, Session<Trip>>>();
await session.update((state) => {
  // @ts-expect-error the state is frozen
  if (state) state.city = "Braga";
  return { city: "Braga", messages: state?.messages ?? [] };
});
const changes = await session.diff({ step: 0 }, { label: "end" });
typed<Equal<typeof changes, Change[]>>();
const applied = applyChanges({}, changes);
typed<Equal<typeof applied, unknown>>();

const untyped = await sp.session("anything").latest();
if (untyped) typed<Equal<typeof untyped.state, unknown>>();

try {
  await session.rewind("nowhere");
} catch (error) {
  if (isSavepointError(error, "CHECKPOINT_NOT_FOUND")) typed<Equal<typeof error.code, "CHECKPOINT_NOT_FOUND">>();
  else if (isSavepointError(error)) typed<Equal<typeof error.code, SavepointErrorCode>>();
}
await using other = await Savepoint.open("memory:");
other.on("damage", (event) => event.sessionId)();
