// The server's interface as the page uses it. What goes wrong comes as a Problem, in words that say what to do.
import { readEvents } from "./sse.js";
import { setting } from "./store.js";

export class Problem extends Error {
  // kind: "gone", "key", "busy", "long", "starting", "other"
  constructor(kind, words, more = {}) {
    super(words);
    Object.assign(this, { kind, ...more });
  }
}

const kWords = {
  gone: "The server does not answer. Is it still running? The page looks for it and goes on when it is back.",
  key: "This server asks for an API key. Enter one under Settings.",
};

function headers(key = setting("key")) {
  return key ? { Authorization: `Bearer ${key}` } : {};
}

// body: what the server said, if it was JSON.
export function problemOf(status, body, retryAfter) {
  const said = body?.error?.message ?? (typeof body?.error === "string" ? body.error : "");
  const code = body?.error?.code;
  if (status === 401) return new Problem("key", code === "missing_api_key" ? kWords.key : `The server does not take this API key: ${said || "it is unknown there"}. Enter another one under Settings.`, { status });
  if (status === 429) return new Problem("busy", `The server is busy: ${said || "its queue is full"}. Try again in ${retryAfter || 1} s.`, { status, retryAfter: retryAfter || 1 });
  if (code === "context_length_exceeded") return new Problem("long", `The conversation is too long for this model: ${said}. Start a new one, or shorten a message with Edit.`, { status });
  if (status === 503) return new Problem("starting", `The server cannot answer now: ${said || body?.reason || "not ready"}.`, { status, retryAfter: retryAfter || 5 });
  return new Problem("other", said || `The server answered ${status} without words.`, { status });
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...headers(options.key), ...(options.body ? { "Content-Type": "application/json" } : {}) }, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("gone", kWords.gone);
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw problemOf(response.status, body, Number(response.headers.get("Retry-After")));
}

export const models = async () => (await (await ask("v1/models")).json()).data;
export const metrics = async () => (await ask("metrics")).text();
// Null where the server has no cluster.
export async function cluster(after) {
  try {
    return await (await ask(`cluster?after=${after}`)).json();
  } catch (problem) {
    if (problem.status === 404) return null;
    throw problem;
  }
}
// True, or the reason why it takes nothing now. Throws Problem "gone".
export async function healthy() {
  try {
    await ask("health");
    return true;
  } catch (problem) {
    if (problem.kind === "gone") throw problem;
    return problem.message;
  }
}
export const removeNode = async (node, key) => (await ask("cluster/remove", { method: "POST", body: JSON.stringify({ node }), key })).json();
export const drainNode = async (node, key) => (await ask("cluster/drain", { method: "POST", body: JSON.stringify({ node }), key })).json();
export const resumeNode = async (node, key) => (await ask("cluster/resume", { method: "POST", body: JSON.stringify({ node }), key })).json();
// Runs; null where the server was told of none.
export async function training() {
  try {
    return (await (await ask("training")).json()).runs;
  } catch (problem) {
    if (problem.status === 404) return null;
    throw problem;
  }
}
export const joinLine = async (key) => (await (await ask("cluster/token", { method: "POST", body: "{}", key })).json()).join;

// Streams an answer. `on` gets {progress} (of the prompt, 0 to 1), {text}, {reasoning}, {call: {index, id, name, arguments}}, {finish}, {usage}.
export async function chat(body, signal, on) {
  const response = await ask("v1/chat/completions", { method: "POST", body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true }, return_progress: true }), signal });
  let whole = false;
  try {
    await readEvents(response.body, (data) => {
      if (data === "[DONE]") return void (whole = true);
      const piece = JSON.parse(data);
      if (piece.error) throw problemOf(piece.error.code === "rate_limit_exceeded" ? 429 : piece.error.code === "shutting_down" || piece.error.code === "unavailable" ? 503 : 500, piece);
      if (piece.usage) on({ usage: piece.usage });
      if (piece.prompt_progress) on({ progress: piece.prompt_progress.processed / piece.prompt_progress.total });
      for (const { delta, finish_reason: finish } of piece.choices) {
        if (delta.reasoning_content) on({ reasoning: delta.reasoning_content });
        if (delta.content) on({ text: delta.content });
        for (const call of delta.tool_calls ?? []) on({ call: { index: call.index, id: call.id, name: call.function?.name, arguments: call.function?.arguments ?? "" } });
        if (finish) on({ finish });
      }
    });
  } catch (error) {
    if (error instanceof Problem || error.name === "AbortError") throw error;
    throw new Problem("gone", kWords.gone);
  }
  if (!whole) throw new Problem("gone", kWords.gone);
}
