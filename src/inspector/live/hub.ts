/**
 * Live events: what changes in a store, to all clients that have subscribed to it.
 *
 * Each topic is polled once for all of its clients, and not without clients. Recent events are kept, so that a client that
 * reconnects gets those that it has missed; if they are gone, or its topic was not polled meanwhile, it gets `reset`.
 */
import { SavepointError } from "../../index.js";
import type { LiveEventName, LiveEvents } from "../api.js";
import { EventStream } from "../http/event-stream.js";
import { Poller } from "./poller.js";
import type { Topic } from "./topic.js";

/** The most events that are kept for clients that reconnect, and the most characters in all of them. */
const MAX_KEPT = 1000;
const MAX_CHARACTERS = 4 * 1024 * 1024;
/** How long a topic is polled after its last client has disconnected, in milliseconds. */
const LINGER = 30_000;
const MAX_CLIENTS = 200;

interface KeptEvent {
  readonly number: number;
  readonly topic: string;
  readonly name: LiveEventName;
  readonly data: string;
}

/** A topic with clients, or whose last client has just disconnected. */
interface LiveTopic {
  readonly topic: Topic;
  readonly poller: Poller;
  readonly clients: Set<EventStream>;
  /** The number of its creation: clients with an older event may have missed changes. */
  readonly since: number;
  linger: NodeJS.Timeout | undefined;
}

export class LiveHub {
  readonly #instance: string;
  readonly #createTopic: (name: string) => Topic;
  readonly #topics = new Map<string, LiveTopic>();
  readonly #clients = new Set<EventStream>();
  #kept: KeptEvent[] = [];
  #characters = 0;
  #last = 0;
  #isClosed = false;

  /** @param createTopic throws for an unknown name */
  constructor(instance: string, createTopic: (name: string) => Topic) {
    this.#instance = instance;
    this.#createTopic = createTopic;
  }

  /** Connects a client. @param lastId the id of the last event that it has received */
  connect(names: readonly string[], lastId: string | undefined, signal: AbortSignal): Response {
    if (this.#isClosed) throw new SavepointError("CLOSED", "The inspector was closed.");
    if (this.#clients.size >= MAX_CLIENTS) {
      throw new SavepointError("BUSY", `The inspector has ${MAX_CLIENTS} clients. Close some of them.`);
    }
    const topics = this.#openAll(names);
    const missed = lastId === undefined ? [] : this.#missed(lastId, topics);
    const client: EventStream = new EventStream(signal, () => this.#disconnect(client));
    this.#clients.add(client);
    const id = this.#idOf(this.#last);
    client.send(id, "hello", toData({ instance: this.#instance, now: Date.now() } satisfies LiveEvents["hello"]));
    if (missed) for (const { number, name, data } of missed) client.send(this.#idOf(number), name, data);
    else client.send(id, "reset", "{}");
    for (const { topic, clients } of topics) {
      clients.add(client);
      const current = topic.current();
      if (current) client.send(id, topic.event, toData(current));
    }
    return client.response;
  }

  /** Polls a topic now, if it has clients: it was changed through this inspector. */
  poke(name: string): void {
    this.#topics.get(name)?.poller.poke();
  }

  /** A topic that has clients. */
  find(name: string): Topic | undefined {
    return this.#topics.get(name)?.topic;
  }

  /** Ends all streams and polls. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const client of this.#clients) client.close();
    await Promise.all([...this.#topics.keys()].map((name) => this.#drop(name)));
  }

  /** Opens all topics, or none: a topic without clients would be polled forever. */
  #openAll(names: readonly string[]): LiveTopic[] {
    const opened: LiveTopic[] = [];
    try {
      for (const name of names) opened.push(this.#open(name));
      return opened;
    } catch (error) {
      for (const live of opened) this.#lingerUnlessUsed(live);
      throw error;
    }
  }

  #open(name: string): LiveTopic {
    const known = this.#topics.get(name);
    if (known) {
      clearTimeout(known.linger);
      return known;
    }
    const topic = this.#createTopic(name);
    const emit = (data: object): void => this.#emit(name, topic.event, toData(data));
    const poller = new Poller(
      topic.pace,
      () => topic.poll(emit),
      // The store cannot be read: clients reconnect, and their other requests report why.
      () => this.#topics.get(name)?.clients.forEach((client) => client.close()),
    );
    // What has changed before its first poll is not known.
    const live: LiveTopic = { topic, poller, clients: new Set(), since: ++this.#last, linger: undefined };
    this.#topics.set(name, live);
    topic.onChange?.(emit);
    return live;
  }

  /** The events after an id; `undefined` if some of them are not known any more. */
  #missed(lastId: string, topics: readonly LiveTopic[]): KeptEvent[] | undefined {
    const [instance, number] = [
      lastId.slice(0, lastId.lastIndexOf("-")),
      Number(lastId.slice(lastId.lastIndexOf("-") + 1)),
    ];
    const oldest = this.#kept[0]?.number ?? this.#last + 1;
    if (instance !== this.#instance || !(number <= this.#last) || number + 1 < oldest) return undefined;
    if (topics.some(({ since }) => since > number)) return undefined;
    const live = new Set(topics.map(({ topic }) => topic.name));
    return this.#kept.filter((event) => event.number > number && live.has(event.topic));
  }

  #emit(topic: string, name: LiveEventName, data: string): void {
    const number = ++this.#last;
    this.#kept.push({ number, topic, name, data });
    this.#characters += data.length;
    while (this.#kept.length > MAX_KEPT || (this.#characters > MAX_CHARACTERS && this.#kept.length > 1)) {
      this.#characters -= this.#kept.shift()?.data.length ?? 0;
    }
    for (const client of this.#topics.get(topic)?.clients ?? []) client.send(this.#idOf(number), name, data);
  }

  #disconnect(client: EventStream): void {
    this.#clients.delete(client);
    for (const live of this.#topics.values()) if (live.clients.delete(client)) this.#lingerUnlessUsed(live);
  }

  #lingerUnlessUsed(live: LiveTopic): void {
    if (live.clients.size > 0) return;
    clearTimeout(live.linger);
    live.linger = setTimeout(() => void this.#drop(live.topic.name), LINGER).unref();
  }

  async #drop(name: string): Promise<void> {
    const live = this.#topics.get(name);
    if (!live) return;
    this.#topics.delete(name);
    clearTimeout(live.linger);
    live.topic.close?.();
    await live.poller.stop();
  }

  #idOf(number: number): string {
    return `${this.#instance}-${number}`;
  }
}

function toData(data: object): string {
  return JSON.stringify(data);
}
