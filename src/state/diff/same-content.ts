/**
 * Do two shadows hold the same content, however it is stored? Unlike `isSame`, which finds what to write, this asks what
 * a reader would call a difference: the order of keys, of a Map's pairs and of a Set's members is none.
 */
import { BlobNode, ListNode, type Shadow, tagOf, TextNode, ValueNode } from "../tree/index.js";

export function isSameContent(a: Shadow, b: Shadow): boolean {
  const text = stringOf(a);
  return text === undefined ? contentText(a) === contentText(b) : text === stringOf(b);
}

function stringOf(shadow: Shadow): string | undefined {
  if (shadow instanceof TextNode && shadow.dense === undefined) return shadow.text;
  return typeof shadow === "string" ? shadow : undefined;
}

/** A text that is equal for equal content and different for different content. */
function contentText(shadow: Shadow): string {
  if (typeof shadow !== "object" || shadow === null) return JSON.stringify(shadow);
  if (Array.isArray(shadow)) return listText("array", shadow);
  if (shadow instanceof TextNode) return contentText(shadow.dense ?? shadow.text);
  if (shadow instanceof ValueNode) return contentText(shadow.value);
  if (shadow instanceof BlobNode) return `${shadow.isBuffer ? "buffer" : "bytes"}#${shadow.hash}`;
  if (shadow instanceof ListNode) {
    const { kind, keys, elements } = shadow;
    return listText(kind, keys ? elements.map((element, index): Shadow => [keys[index] as string, element]) : elements);
  }
  const tag = tagOf(shadow);
  if (!tag) return listText("object", Object.entries(shadow));
  const [name, ...content] = tag;
  return Array.isArray(content[0]) ? listText(name, content[0]) : `${name}(${content.map(contentText).join()})`;
}

function listText(kind: string, parts: readonly Shadow[]): string {
  const texts = parts.map(contentText);
  return `${kind}[${(kind === "array" ? texts : texts.sort()).join()}]`;
}
