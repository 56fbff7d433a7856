/** States that look like those of agents. */

export interface Message {
  readonly id: string;
  readonly role: string;
  content: string;
}

/** A message long enough to be an item of its own. */
export function message(n: number, content = `message ${n} `.repeat(12)): Message {
  return { id: `m${n}`, role: n % 2 ? "assistant" : "user", content };
}

export function messages(count: number): Message[] {
  return Array.from({ length: count }, (_, n) => message(n));
}
