/** Semantic search: embeds strings, and ranks items by the similarity of their vectors. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { invalidArgument } from "../errors.js";
import { textsOf } from "./text-paths.js";

/** How items are embedded. An `IndexConfig` of LangGraph fits. */
export interface StoreIndexOptions {
  /** The number of dimensions of the vectors. */
  readonly dims: number;
  /** The model, such as `new OpenAIEmbeddings()` of `@langchain/openai`. */
  readonly embeddings: {
    embedQuery(text: string): Promise<number[]>;
    embedDocuments(texts: string[]): Promise<number[][]>;
  };
  /**
   * The fields of which each text gets a vector: `"title"`, `"author.name"`, `"chapters[*].content"`, `"tags[-1]"`, or `"$"`, the
   * whole value as JSON.
   * @default ["$"]
   */
  readonly fields?: readonly string[];
}

/** What is embedded of one item: its value, and the fields if they are not those of the store. */
export interface ToEmbed {
  readonly value: unknown;
  readonly fields: readonly string[] | undefined;
}

/** Vectors by the paths of their texts; `undefined` if there is no text. */
export type EncodedVectors = Readonly<Record<string, string>> | undefined;

/** The number of products that are computed before the event loop gets a turn: about 10 ms. */
const PRODUCTS_PER_TURN = 8_000_000;

/** Embeds the texts of items and queries. */
export class Embedder {
  readonly #options: StoreIndexOptions;

  constructor(options: StoreIndexOptions) {
    const { dims, embeddings, fields = ["$"] } = options;
    if (!Number.isSafeInteger(dims) || dims < 1) {
      throw invalidArgument(`\`index.dims\` must be a positive integer, got ${JSON.stringify(dims)}.`);
    }
    const model: unknown = embeddings;
    const { embedQuery, embedDocuments } = (model ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof embedQuery !== "function" || typeof embedDocuments !== "function") {
      throw invalidArgument("`index.embeddings` must have the methods embedQuery and embedDocuments.");
    }
    validateFields(fields, "index.fields");
    this.#options = options;
  }

  /** The vectors of several items, in their order. Calls the model once. */
  async embedItems(items: readonly ToEmbed[]): Promise<EncodedVectors[]> {
    const { fields: all = ["$"], embeddings } = this.#options;
    const texts = items.map(({ value, fields }) => textsOf(value, fields ?? all));
    const distinct = [...new Set(texts.flat().map(({ text }) => text))];
    if (distinct.length === 0) return items.map(() => undefined);
    const vectors = await embeddings.embedDocuments(distinct);
    if (!Array.isArray(vectors) || vectors.length !== distinct.length) {
      throw invalidArgument(
        `The embeddings model returned ${Array.isArray(vectors) ? vectors.length : "no"} vectors for ${distinct.length} texts. Nothing was saved.`,
      );
    }
    const encoded = new Map(distinct.map((text, index) => [text, encodeVector(this.#validate(vectors[index]))]));
    return texts.map((ofItem) =>
      ofItem.length === 0
        ? undefined
        : Object.fromEntries(ofItem.map(({ path, text }) => [path, encoded.get(text) as string])),
    );
  }

  async embedQuery(query: string): Promise<Float32Array> {
    return Float32Array.from(this.#validate(await this.#options.embeddings.embedQuery(query)));
  }

  get dims(): number {
    return this.#options.dims;
  }

  #validate(vector: unknown): readonly number[] {
    const { dims } = this.#options;
    const numbers = Array.isArray(vector) ? (vector as unknown[]) : [];
    if (numbers.length === dims && numbers.every((each) => Number.isFinite(each))) return numbers as number[];
    throw invalidArgument(
      `The embeddings model returned a vector of ${numbers.length} numbers, and \`index.dims\` is ${dims}: set it to the model's number of dimensions.`,
    );
  }
}

export function validateFields(fields: unknown, name: string): asserts fields is readonly string[] {
  if (Array.isArray(fields) && fields.every((field) => typeof field === "string")) return;
  throw invalidArgument(`\`${name}\` must be an array of field paths, got ${JSON.stringify(fields)}.`);
}

function encodeVector(vector: readonly number[]): string {
  const floats = Float32Array.from(vector);
  return Buffer.from(floats.buffer).toString("base64");
}

/** Decoded vectors by the object that contains their encoded form, which never changes. */
const decodedVectors = new WeakMap<object, readonly Float32Array[]>();

/** The vectors of an item that can be compared with vectors of `dims` numbers. Others are those of another model. */
function decodeVectors(vectors: EncodedVectors, dims: number): readonly Float32Array[] {
  if (!vectors) return [];
  let decoded = decodedVectors.get(vectors);
  if (!decoded) {
    decoded = Object.values(vectors).map((each) => {
      const bytes = Uint8Array.from(Buffer.from(each, "base64"));
      return new Float32Array(bytes.buffer, 0, Math.floor(bytes.length / 4));
    });
    decodedVectors.set(vectors, decoded);
  }
  return decoded.filter(({ length }) => length === dims);
}

/** An entry with its similarity; `undefined` for one without vectors. */
export interface Ranked<Entry> {
  readonly entry: Entry;
  readonly score: number | undefined;
}

/** Ranks entries by the greatest cosine similarity of one of their vectors to a query; those without vectors come last. */
export async function rankBySimilarity<Entry>(
  entries: readonly Entry[],
  vectorsOf: (entry: Entry) => EncodedVectors,
  query: Float32Array,
): Promise<Ranked<Entry>[]> {
  const scored: { entry: Entry; score: number }[] = [];
  const others: { entry: Entry; score: undefined }[] = [];
  const length = norm(query);
  let products = 0;
  for (const entry of entries) {
    const vectors = decodeVectors(vectorsOf(entry), query.length);
    if (vectors.length === 0) {
      others.push({ entry, score: undefined });
      continue;
    }
    let score = Number.NEGATIVE_INFINITY;
    for (const vector of vectors) score = Math.max(score, similarity(query, length, vector));
    scored.push({ entry, score });
    products += vectors.length * query.length;
    if (products < PRODUCTS_PER_TURN) continue;
    products = 0;
    await nextTurn();
  }
  return [...scored.sort((a, b) => b.score - a.score), ...others];
}

function similarity(query: Float32Array, length: number, vector: Float32Array): number {
  let product = 0;
  let square = 0;
  for (let index = 0; index < query.length; index++) {
    const part = vector[index] as number;
    product += part * (query[index] as number);
    square += part * part;
  }
  const cosine = product / (length * Math.sqrt(square));
  // Vectors of zeros have no direction, and stored ones can be anything.
  return Number.isFinite(cosine) ? cosine : 0;
}

function norm(vector: Float32Array): number {
  return Math.sqrt(vector.reduce((sum, part) => sum + part * part, 0));
}
