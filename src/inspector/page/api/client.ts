/** Requests to the JSON API. */
import { type ApiError, encodeId } from "../../api.js";
import { authorization, base, isSignedOut } from "./base.js";

/** A request that failed: the code and the message of the server, or of the connection. */
export class ApiFailure extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export type Parameters = Readonly<Record<string, string | number | boolean | undefined>>;

/** The path of a session in the API. */
export function sessionPath(id: string, rest = ""): string {
  return `/api/sessions/${encodeId(id)}${rest}`;
}

/** A path with query parameters; those that are `undefined` or empty are left out. */
export function withParameters(path: string, parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
}

/** Reads from the API. */
export async function get<Result>(path: string, signal?: AbortSignal): Promise<Result> {
  return request<Result>(path, { headers: authorization(), ...(signal && { signal }) });
}

/** Sends JSON to the API. */
export async function post<Result>(path: string, body: object): Promise<Result> {
  const headers = { ...authorization(), "content-type": "application/json" };
  return request<Result>(path, { method: "POST", headers, body: JSON.stringify(body) });
}

async function request<Result>(path: string, init: RequestInit): Promise<Result> {
  const response = await send(path, init);
  if (response.ok) return (await response.json()) as Result;
  throw await toFailure(response);
}

/** Sends a request. The server may be gone: then the failure has the status 0. */
export async function send(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(`${base}${path}`, { credentials: "same-origin", ...init });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiFailure(0, "UNREACHABLE", "The inspector does not respond. Start it again with: npx savepoint ui");
  }
}

export async function toFailure(response: Response): Promise<ApiFailure> {
  if (response.status === 401) isSignedOut.value = true;
  const text = await response.text();
  try {
    const { error } = JSON.parse(text) as ApiError;
    return new ApiFailure(response.status, error.code, error.message);
  } catch {
    return new ApiFailure(response.status, "UNEXPECTED", `The server responded with ${response.status}.`);
  }
}
