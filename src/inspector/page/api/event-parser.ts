/** Parses server-sent events from a stream of text. */

export interface ServerEvent {
  readonly id: string | undefined;
  readonly name: string;
  readonly data: string;
}

export class EventParser {
  #rest = "";
  #id: string | undefined;
  #name = "";
  #data: string[] = [];

  /** The events that are complete with this text. Comments are skipped. */
  push(text: string): ServerEvent[] {
    const lines = (this.#rest + text).split(/\r\n|\n/);
    this.#rest = lines.pop() ?? "";
    const events: ServerEvent[] = [];
    for (const line of lines) {
      if (line === "") {
        if (this.#data.length > 0) {
          events.push({ id: this.#id, name: this.#name || "message", data: this.#data.join("\n") });
        }
        this.#id = undefined;
        this.#name = "";
        this.#data = [];
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "id") this.#id = value;
      else if (field === "event") this.#name = value;
      else if (field === "data") this.#data.push(value);
    }
    return events;
  }
}
