/**
 * Where everything is: the keys of a store's records, and the names of its tapes.
 *
 * Sessions and conversations have numbers of their own, never given twice: rows and tapes are named after them, so that
 * what belonged to a deleted one can never be mistaken for that of a new one with the same id. Numbers are written in base
 * 36 behind their own length, which keeps them short and in order. A tab ends whatever a caller chose; ids have none.
 *
 * An agent is stored as a session whose id nobody can choose, because it begins with a control character: its saves are
 * heads without rows, and the checkpoints of the whole agent are its rows.
 *
 * | key                         | value                                            |
 * |-----------------------------|--------------------------------------------------|
 * | `#`                         | the next number for a session                    |
 * | `s⇥<session>`               | the session: number, agent, counters             |
 * | `s⇥<session>⇥<branch>`      | the branch: head, epoch, item counter            |
 * | `n<number>`                 | the id of the session with that number           |
 * | `i<id>⇥<number>`            | the seq of the checkpoint with that id           |
 * | `a<number><seq><name>`      | something attached to a checkpoint: label, pin   |
 * | `l<number><label>⇥<seq>`    | a checkpoint by its label                        |
 * | `r⇥<session>⇥<branch>⇥r`    | the run of a branch: status, turn, question      |
 * | `r⇥<session>⇥<branch>⇥j`    | its journal: epoch and entries; every write of a run checks it |
 * | `r⇥<session>⇥<branch>⇥m`    | the inputs that were left for it: counters       |
 * | `r⇥<session>⇥<branch>⇥m<n>` | an input that was left for it                    |
 * | `r⇥<session>⇥<branch>⇥t<key>` | where the turn with that key began             |
 * | `q⇥<session>⇥<branch>`      | a run that is not over, and when it is due       |
 * | `w⇥<agent>⇥<priority><time>⇥<session>⇥<branch>` | the same, while nobody runs it, in the order in which to go on with them |
 * | `u<owner>⇥<session>⇥<branch>` | the same, while somebody runs it                |
 * | `h<owner>`                  | who runs something: where it lives, and until when its leases last |
 * | `j⇥<agent>⇥<number>`        | the id of a session of that agent                |
 * | `c⇥<conversation>`          | the conversation: number, agent, title, tags, where its messages are |
 * | `c⇥<conversation>⇥n<number>` | how many items its tape has: appending checks that it is there |
 * | `c⇥<conversation>⇥l<number>` | when its last message came                      |
 * | `c⇥<conversation>⇥t<number>` | its title, where that is taken from a message   |
 * | `k<number>`                 | the id of the conversation with that number      |
 * | `k⇥<agent>⇥<number>`        | the same, of one agent; and whether it is archived |
 * | `m⇥<agent>`                 | by how much numbers have moved that its checkpoints name, where it came from another store |
 * | `v⇥<bundle>`                | a bundle that is being imported: by how much its numbers move, and what is stored of it |
 * | `y⇥<agent>⇥<number>`        | a deleted conversation that checkpoints of the agent may still need |
 * | `o<process>`                | a process that has written to the store and not closed it yet |
 * | `p`                         | changes whenever a retention policy does         |
 * | `p⇥`                        | the retention policy of the store                |
 * | `p⇥a⇥<agent>`               | that of an agent and its sessions                |
 * | `p⇥s⇥<session>`             | that of a session                                |
 * | `w<number><seq><name>`      | a value that was attached to a checkpoint; apart from labels and pins, because it may be long |
 * | `w<number>`                 | how many items the tape of such values has       |
 * | `x<number>`                 | a deleted session or conversation whose remains are to be freed |
 * | `z<number><seq>`            | a checkpoint's row: last, where a tree grows best |
 */
import { type KeyRange, prefixRange } from "../store/index.js";

export const NEXT_NUMBER_KEY = "#";

const AGENT_LINE = "\u0001";
/** The session that an agent is stored as. */
export const agentHistoryId = (agent: string): string => AGENT_LINE + agent;
/** The agent whose line a session is; `undefined` for a session that is one. */
export const agentOfHistoryId = (session: string): string | undefined =>
  session.startsWith(AGENT_LINE) ? session.slice(AGENT_LINE.length) : undefined;
/** The records of all agents, and of nothing else. */
export const ALL_AGENTS: KeyRange = prefixRange(`s\t${AGENT_LINE}`);

export const sessionKey = (session: string): string => `s\t${session}`;
export const branchKey = (session: string, branch: string): string => `s\t${session}\t${branch}`;
export const branchesOf = (session: string): KeyRange => prefixRange(`s\t${session}\t`);
export const sessionNumberKey = (number: number): string => `n${encodeNumber(number)}`;
export const ALL_SESSION_NUMBERS: KeyRange = prefixRange("n");

/** A part of what is known about the run of a branch. */
const runPart = (session: string, branch: string, part: string): string => `r\t${session}\t${branch}\t${part}`;
export const runKey = (session: string, branch: string): string => runPart(session, branch, "r");
export const journalKey = (session: string, branch: string): string => runPart(session, branch, "j");
export const inboxKey = (session: string, branch: string): string => runPart(session, branch, "m");
export const inputKey = (session: string, branch: string, number: number): string =>
  runPart(session, branch, `m${encodeNumber(number)}`);
export const turnKey = (session: string, branch: string, key: string): string => runPart(session, branch, `t${key}`);
export const runsOf = (session: string): KeyRange => prefixRange(`r\t${session}\t`);
export const queueEntryKey = (session: string, branch: string): string => `q\t${session}\t${branch}`;
export const queueEntriesOf = (session: string): KeyRange => prefixRange(`q\t${session}\t`);
export const ALL_QUEUE_ENTRIES: KeyRange = prefixRange("q");
/** The session and the branch in the key of a run that is not over. */
export const parseQueueEntryKey = (key: string): { session: string; branch: string } => {
  const [, session = "", branch = ""] = key.split("\t");
  return { session, branch };
};
/** Where work is found that nobody does. The most urgent comes first, then what has been due for longest. */
export const workKey = (agent: string, priority: number, due: number, session: string, branch: string): string =>
  `${workPrefix(agent, priority)}${encodeTime(due)}\t${session}\t${branch}`;
/** What of an agent's work has come due by a time. */
export const readyWork = (agent: string, priority: number, now: number): KeyRange => ({
  from: workPrefix(agent, priority),
  to: workPrefix(agent, priority) + encodeTime(now + 1),
});
/** An agent's work of this priority and of lower ones, including work that is not due yet. */
export const workUpToPriority = (agent: string, priority: number): KeyRange => ({
  from: workPrefix(agent, priority),
  to: prefixRange(`w\t${agent}\t`).to,
});
export const priorityOfWorkKey = (key: string): number => 9 - Number(key.split("\t")[2]?.[0]);
const workPrefix = (agent: string, priority: number): string => `w\t${agent}\t${9 - priority}`;
export const ALL_WORK: KeyRange = prefixRange("w");
export const parseWorkKey = (key: string): { session: string; branch: string } => {
  const [, , , session = "", branch = ""] = key.split("\t");
  return { session, branch };
};
export const ownedKey = (owner: string, session: string, branch: string): string => `u${owner}\t${session}\t${branch}`;
/** What somebody runs. */
export const ownedBy = (owner: string): KeyRange => prefixRange(`u${owner}\t`);
export const parseOwnedKey = (key: string): { session: string; branch: string } => {
  const [, session = "", branch = ""] = key.split("\t");
  return { session, branch };
};

export const ownerKey = (owner: string): string => `h${owner}`;
export const ALL_OWNERS: KeyRange = prefixRange("h");

export const openProcessKey = (process: string): string => `o${process}`;
export const ALL_OPEN_PROCESSES: KeyRange = prefixRange("o");

export const agentSessionKey = (agent: string, number: number): string => `j\t${agent}\t${encodeNumber(number)}`;
export const sessionsOfAgent = (agent: string): KeyRange => prefixRange(`j\t${agent}\t`);

export const conversationKey = (id: string): string => `c\t${id}`;
/** A part of what is known about the conversation with an id, as long as it has this number. */
const conversationPart = (id: string, part: string, number: number): string =>
  `c\t${id}\t${part}${encodeNumber(number)}`;
export const messageCounterKey = (id: string, number: number): string => conversationPart(id, "n", number);
export const lastMessageTimeKey = (id: string, number: number): string => conversationPart(id, "l", number);
export const derivedTitleKey = (id: string, number: number): string => conversationPart(id, "t", number);
export const partsOfConversation = (id: string): KeyRange => prefixRange(`c\t${id}\t`);
export const ALL_CONVERSATIONS: KeyRange = prefixRange("c\t");
/** The conversation that a key of {@link ALL_CONVERSATIONS} belongs to. */
export const conversationOfKey = (key: string): string => key.split("\t")[1] as string;
export const conversationNumberKey = (number: number): string => `k${encodeNumber(number)}`;
/** From the first digit to behind the last letter that a number may begin with: not the tab of {@link conversationsOf}. */
export const ALL_CONVERSATION_NUMBERS: KeyRange = { from: "k0", to: "l" };
export const agentConversationKey = (agent: string | undefined, number: number): string =>
  `k\t${agent ?? ""}\t${encodeNumber(number)}`;
export const conversationsOf = (agent: string | undefined): KeyRange => prefixRange(`k\t${agent ?? ""}\t`);
/** The lists of all agents, and of conversations that belong to none. */
export const ALL_AGENT_CONVERSATIONS: KeyRange = prefixRange("k\t");
/** The agent in whose list a conversation is, if it is one's. */
export const agentOfAgentConversationKey = (key: string): string | undefined => key.split("\t")[1] || undefined;
export const ALL_REMOVED_CONVERSATIONS: KeyRange = prefixRange("y\t");
/** Sessions and branches, and the agents that are stored as such. */
export const ALL_SESSIONS: KeyRange = prefixRange("s\t");
export const removedConversationKey = (agent: string, number: number): string => `y\t${agent}\t${encodeNumber(number)}`;
export const removedConversationsOf = (agent: string): KeyRange => prefixRange(`y\t${agent}\t`);
/** The number at the end of a key whose parts are separated by tabs. */
export const trailingNumberOf = (key: string): number =>
  decodeNumbers(key.slice(key.lastIndexOf("\t") + 1), 1).numbers[0] as number;
/** The tape of a conversation's messages. */
export const messageTape = (number: number): string => tapeName(number, 0);

export const movedNumbersKey = (agent: string): string => `m\t${agent}`;
export const ALL_IMPORTS: KeyRange = prefixRange("v\t");
export const importKey = (bundle: string): string => `v\t${bundle}`;

export const rowKey = (number: number, seq: number): string => `z${encodeNumber(number)}${encodeNumber(seq)}`;
/** Rows with a seq from `from` (included) to `to` (excluded). */
export const rowsOf = (number: number, from = 0, to?: number): KeyRange => {
  const all = prefixRange(`z${encodeNumber(number)}`);
  return { from: rowKey(number, from), to: to === undefined ? all.to : rowKey(number, to) };
};
/** The seq in the key of a row. */
export const seqOfRowKey = (key: string): number => decodeNumbers(key.slice(1), 2).numbers[1] as number;
/** Where the records begin that say where checkpoints with this id are. */
export const idPrefix = (id: string): string => `i${packId(id)}\t`;
export const idKey = (id: string, number: number): string => `${idPrefix(id)}${encodeNumber(number)}`;

export const noteKey = (number: number, seq: number, name: string): string =>
  `a${encodeNumber(number)}${encodeNumber(seq)}${name}`;
export const notesOf = (number: number, from?: number, to?: number): KeyRange => {
  const all = prefixRange(`a${encodeNumber(number)}`);
  return {
    from: from === undefined ? all.from : noteKey(number, from, ""),
    to: to === undefined ? all.to : noteKey(number, to, ""),
  };
};
/** The tape that has the values that are attached to checkpoints of a session: no session has as many branches. */
export const ANNOTATIONS_TAPE = 2 ** 32 - 1;
export const annotationCounterKey = (number: number): string => `w${encodeNumber(number)}`;
export const annotationKey = (number: number, seq: number, name: string): string =>
  `w${encodeNumber(number)}${encodeNumber(seq)}${name}`;
/** What is attached to the checkpoints with a seq from `from` (included) to `to` (excluded). */
export const annotationsOf = (number: number, from = 0, to?: number): KeyRange => {
  const all = prefixRange(`w${encodeNumber(number)}`);
  return { from: annotationKey(number, from, ""), to: to === undefined ? all.to : annotationKey(number, to, "") };
};
export const labelKey = (number: number, label: string, seq: number): string =>
  `l${encodeNumber(number)}${label}\t${encodeNumber(seq)}`;
export const labelRange = (number: number, label: string): KeyRange =>
  prefixRange(`l${encodeNumber(number)}${label}\t`);
export const labelsOf = (number: number): KeyRange => prefixRange(`l${encodeNumber(number)}`);

export const RETENTION_STAMP_KEY = "p";
export const STORE_RETENTION_KEY = "p\t";
export const agentRetentionKey = (agent: string): string => `p\ta\t${agent}`;
export const sessionRetentionKey = (session: string): string => `p\ts\t${session}`;
export const ALL_RETENTION_POLICIES: KeyRange = prefixRange("p\t");

export const garbageKey = (number: number): string => `x${encodeNumber(number)}`;
export const ALL_GARBAGE: KeyRange = prefixRange("x");

export const tapeName = (number: number, tape: number): string => `${encodeNumber(number)}${encodeNumber(tape)}`;
/** The number that a tape has within its session. */
export const tapeNumberOf = (tape: string): number => decodeNumbers(tape, 2).numbers[1] as number;
export const tapesOf = (number: number): KeyRange => prefixRange(encodeNumber(number));

/** Digits in base 36 behind their count: shorter numbers sort first, and it says itself where it ends. */
export function encodeNumber(value: number): string {
  const digits = value.toString(36);
  return digits.length.toString(36) + digits;
}

/** The numbers at the start of a text that {@link encodeNumber} wrote. */
export function decodeNumbers(text: string, count: number): { numbers: number[]; rest: string } {
  const numbers: number[] = [];
  let at = 0;
  for (let index = 0; index < count; index++) {
    const length = Number.parseInt(text[at] ?? "", 36);
    numbers.push(Number.parseInt(text.slice(at + 1, at + 1 + length), 36));
    at += 1 + length;
  }
  return { numbers, rest: text.slice(at) };
}

// In the order of their codes, so that packed ids sort like the ids they stand for.
const ALPHABET = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
const HYPHEN = 45;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** A UUID in 22 characters, in the order of UUIDs; any other id behind `=`. */
export function packId(id: string): string {
  if (!UUID.test(id)) return `=${id}`;
  let packed = "";
  let bits = 0;
  let count = 0;
  for (let at = 0; at < id.length; at++) {
    const code = id.charCodeAt(at);
    if (code === HYPHEN) continue;
    // A digit, or a letter from a to f.
    bits = (bits << 4) | (code < 58 ? code - 48 : code - 87);
    count += 4;
    if (count >= 6) {
      count -= 6;
      packed += ALPHABET[(bits >> count) & 63] as string;
    }
  }
  return packed + (ALPHABET[(bits << (6 - count)) & 63] as string);
}

export function unpackId(packed: string): string {
  if (packed.startsWith("=")) return packed.slice(1);
  let digits = "";
  for (let at = 0; at < packed.length; at += 2) {
    const bits = (ALPHABET.indexOf(packed[at] as string) << 6) | ALPHABET.indexOf(packed[at + 1] as string);
    digits += bits.toString(16).padStart(3, "0");
  }
  return [0, 8, 12, 16, 20].map((from, index, cuts) => digits.slice(from, cuts[index + 1] ?? 32)).join("-");
}

/** A time in milliseconds, in a form whose order is that of texts. */
function encodeTime(time: number): string {
  return Math.max(0, Math.floor(time)).toString(36).padStart(9, "0");
}
