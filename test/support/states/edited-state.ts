/** For tests: a state like an agent's, and random edits of every kind that agents and their authors make. */

export interface EditedState {
  messages: unknown[];
  files: Record<string, string>;
  note: string;
  seen: Set<unknown>;
  nested: { deep: { id: number; list: unknown[]; map?: Map<string, unknown> }[] };
  numbers?: number[];
  bytes?: Uint8Array;
  more?: Record<string, unknown>;
}

export function newEditedState(random: (below: number) => number): EditedState {
  return { messages: makeArray(random, 3), files: {}, note: "", seen: new Set(), nested: { deep: [] } };
}

export function edit(state: EditedState, random: (below: number) => number): void {
  for (let times = random(3) + 1; times > 0; times--) {
    const list = random(3) === 0 ? state.nested.deep : state.messages;
    switch (random(17)) {
      case 0:
      case 1:
      case 2:
        state.messages.push(makeMessage(random));
        break;
      case 3:
        if (list.length) list.splice(random(list.length), random(4));
        break;
      case 4:
        state.messages.splice(random(state.messages.length + 1), 0, ...makeArray(random, random(5)));
        break;
      case 5:
        state.messages.reverse();
        break;
      case 6:
        if (state.messages.length) state.messages[random(state.messages.length)] = makeMessage(random);
        break;
      case 7:
        state.files[`src/file-${random(200)}.ts`] = "line of code\n".repeat(random(900));
        break;
      case 8: {
        const names = Object.keys(state.files);
        const name = names[random(names.length)];
        if (name !== undefined) delete state.files[name];
        break;
      }
      case 9:
        state.note += `😀 ${"growing ".repeat(random(300))}`;
        break;
      case 10:
        state.note = state.note.slice(random(50), random(state.note.length + 1)) + "é".repeat(random(5000));
        break;
      case 11:
        state.nested.deep.push({ id: random(1e6), list: makeArray(random, random(30)) });
        break;
      case 12: {
        const inside = state.nested.deep[random(state.nested.deep.length)];
        if (inside) inside.list.push(makeMessage(random));
        if (inside)
          (inside.map ??= new Map()).set(`k${random(300)}`, {
            text: "x".repeat(random(200)),
            at: new Date(random(1e9)),
          });
        break;
      }
      case 13:
        state.numbers = Array.from({ length: random(2000) }, () => random(100));
        break;
      case 14:
        if (state.numbers?.length) state.numbers[random(state.numbers.length)] = -0;
        state.seen.add(random(2) ? random(500) : `member ${random(500)}`);
        break;
      case 15:
        state.bytes = new Uint8Array(random(3000)).fill(random(256));
        break;
      case 16:
        state.more = Object.fromEntries(
          Array.from({ length: random(60) }, (_, i) => [`key${i}`, i % 7 ? "v".repeat(i * 3) : { $: i }]),
        );
        if (random(5) === 0) state.messages = [];
        break;
    }
  }
}

function makeArray(random: (below: number) => number, count: number): unknown[] {
  return Array.from({ length: count }, () => makeMessage(random));
}

function makeMessage(random: (below: number) => number): unknown {
  const content = "word ".repeat(random(10) === 0 ? random(4000) : random(40));
  switch (random(5)) {
    case 0:
      return { role: "user", content, at: new Date(random(1e9)) };
    case 1:
      return {
        role: "tool",
        content: [
          { type: "text", text: content },
          { type: "n", value: undefined },
        ],
      };
    case 2:
      return {
        role: "assistant",
        content,
        toolCalls: Array.from({ length: random(40) }, (_, i) => ({ id: `c${i}`, arguments: { content } })),
      };
    case 3:
      return random(100);
    default:
      return { id: `m${random(1e6)}`, role: "user", content };
  }
}
