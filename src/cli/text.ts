/** Text for people. Stored strings are not trusted, so every string is sanitised, unless it was coloured here. */
import pc from "picocolors";
import { sanitize } from "./terminal-text.js";

/** One line that is safe to print: its strings are sanitised, and only its colours begin with an escape character. */
export class Styled {
  readonly ansi: string;

  /** @param ansi sanitised text with colours */
  constructor(ansi: string) {
    this.ansi = ansi;
  }
}

/** One line of text. A string is sanitised when it is printed. */
export type Text = string | Styled;

/** The line as it is printed. */
export function toAnsi(text: Text): string {
  return text instanceof Styled ? text.ansi : sanitize(text);
}

/** A template for a line with colours: `` colored`${colors.red("lost")}  ${place}` ``. */
export function colored(template: TemplateStringsArray, ...values: readonly Text[]): Styled {
  return new Styled(String.raw({ raw: template }, ...values.map(toAnsi)));
}

/** Joins the parts that are not empty with two spaces. */
export function joinParts(parts: readonly Text[]): Styled {
  const printed = parts.map(toAnsi).filter((part) => part !== "");
  return new Styled(printed.join("  "));
}

const COLORS = ["bold", "cyan", "dim", "green", "magenta", "red", "yellow"] as const;

export type Colors = Readonly<Record<(typeof COLORS)[number], (text: Text) => Styled>>;

/** Functions that colour a text, or only sanitise it if colours are disabled. An empty text stays empty. */
export function createColors(enabled: boolean): Colors {
  const colors = pc.createColors(enabled);
  return Object.fromEntries(
    COLORS.map((name) => [name, (text: Text) => new Styled(toAnsi(text) && colors[name](toAnsi(text)))]),
  ) as Colors;
}
