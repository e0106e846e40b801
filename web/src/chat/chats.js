// All conversations, the one that is shown, and the answers on their way. An answer goes on while another conversation is
// shown; what has come of it is kept every second, so a reload loses no more.
import * as api from "../lib/api.js";
import { connection } from "../lib/connection.js";
import * as tree from "../lib/conversation.js";
import * as keep from "../lib/store.js";
import { Store } from "../lib/store_base.js";

const kKeepMs = 1000;

class Chats extends Store {
  all = []; // newest first
  current = null; // id; null: a new one
  models = [];
  problem = ""; // with the browser's storage
  draft = { model: keep.setting("model"), settings: readSettings() };
  #running = new Map(); // conversation id -> {controller, message}

  async start() {
    connection.onBack(() => this.loadModels()); // before anything is waited for: the server may be quicker
    try {
      this.all = await keep.loadAll();
      // An answer that was on its way when the page was closed is not any more.
      this.all = this.all.map((c) => Object.values(c.messages).filter((m) => m.pending).reduce((done, m) => tree.change(done, m.id, { pending: false, cut: "The page was closed." }), c));
      if (!(await keep.lasts())) this.problem = "This browser keeps nothing for this page: conversations are lost when it is closed. Export what matters.";
    } catch (error) {
      this.problem = `The browser cannot read its conversations: ${error.message}`;
    }
    this.changed();
  }

  async loadModels() {
    try {
      this.models = await api.models();
    } catch (problem) {
      if (problem.kind === "key") connection.needsKey?.();
      this.models = [];
    }
    this.changed();
  }

  conversation() {
    return this.all.find((c) => c.id === this.current) ?? null;
  }
  settings() {
    return this.conversation()?.settings ?? this.draft.settings;
  }
  model() {
    const wanted = this.conversation()?.settings.model || this.draft.model;
    return this.models.some((m) => m.id === wanted) ? wanted : this.models[0]?.id ?? "";
  }
  isRunning(id = this.current) {
    return this.#running.has(id);
  }

  open(id) {
    this.current = id;
    this.changed();
  }

  set(fields) {
    const conversation = this.conversation();
    if (conversation) this.#put({ ...conversation, settings: { ...conversation.settings, ...fields } });
    this.draft.settings = { ...this.draft.settings, ...fields };
    keep.setSetting("sampling", JSON.stringify(this.draft.settings));
    if (fields.model) keep.setSetting("model", (this.draft.model = fields.model));
    this.changed();
  }

  rename(id, title) {
    const conversation = this.all.find((c) => c.id === id);
    if (conversation && title.trim()) this.#put({ ...conversation, title: title.trim() });
  }

  async remove(id) {
    this.stop(id);
    this.all = this.all.filter((c) => c.id !== id);
    if (this.current === id) this.current = null;
    this.changed();
    await keep.remove(id);
  }

  exportAll(ids = null) {
    return tree.exported(this.all.filter((c) => !ids || ids.includes(c.id)));
  }
  importText(text) {
    const read = tree.imported(text);
    for (const conversation of read.reverse()) this.#put(conversation);
    return read.length;
  }

  // A new message at the end, or in the place of `message` on a branch of its own.
  send(content, files = [], message = null) {
    let conversation = this.conversation() ?? tree.newConversation({ ...this.draft.settings, model: this.draft.model });
    const parent = message ? message.parent : conversation.leaf;
    conversation = tree.add(conversation, parent, { role: "user", content, ...(files.length ? { files } : {}) });
    this.current = conversation.id;
    this.#answer(conversation, conversation.leaf);
  }

  // What a tool gave, written by hand.
  sendResult(message, call, content) {
    const conversation = tree.add(this.conversation(), message.id, { role: "tool", call: call.id, name: call.name, content });
    const answered = tree.path(conversation).filter((m) => m.role === "tool").map((m) => m.call);
    if (message.calls.every((c) => answered.includes(c.id))) this.#answer(conversation, conversation.leaf);
    else this.#put(conversation);
  }

  again(message) {
    this.#answer(this.conversation(), message.parent);
  }

  select(message) {
    this.#put(tree.select(this.conversation(), message.id), false);
  }

  stop(id = this.current) {
    this.#running.get(id)?.controller.abort();
  }

  // Puts it first, unless only what is shown of it changed.
  #put(conversation, first = true) {
    this.all = first ? [conversation, ...this.all.filter((c) => c.id !== conversation.id)] : this.all.map((c) => (c.id === conversation.id ? conversation : c));
    this.changed();
    keep.save(conversation).catch((error) => {
      this.problem = `The browser keeps nothing more: ${error?.message ?? "its storage is full"}. Export and delete conversations.`;
      this.changed();
    });
  }

  #change(id, message, fields, store) {
    const at = this.all.findIndex((c) => c.id === id);
    if (at < 0) return;
    const conversation = tree.change(this.all[at], message, fields);
    if (store) return this.#put(conversation, false);
    this.all = this.all.map((c, i) => (i === at ? conversation : c));
    this.changed();
  }

  async #answer(conversation, parent) {
    if (this.#running.has(conversation.id)) return;
    const model = conversation.settings.model && this.models.some((m) => m.id === conversation.settings.model) ? conversation.settings.model : this.model();
    conversation = tree.add(conversation, parent, { role: "assistant", model, pending: true, began: Date.now() });
    const { id, leaf: message } = conversation;
    const controller = new AbortController();
    this.#running.set(id, { controller, message });
    this.#put(conversation);

    const began = performance.now();
    let text = "", reasoning = "", calls = [], first = 0, drawn = false, kept = began;
    const fields = () => ({ content: text, ...(reasoning ? { reasoning } : {}), ...(calls.length ? { calls } : {}), ...(first ? { firstMs: first } : {}) });
    // Drawn once a frame, however many tokens came; a page in the background has no frames, so time does too.
    const draw = () => {
      if (drawn) return;
      drawn = true;
      const now = () => {
        if (!drawn) return;
        drawn = false;
        const store = performance.now() - kept > kKeepMs;
        if (store) kept = performance.now();
        if (this.#running.get(id)?.message === message) this.#change(id, message, fields(), store);
      };
      requestAnimationFrame(now);
      setTimeout(now, 250);
    };
    const end = {};
    try {
      await api.chat(requestOf(conversation, parent, model), controller.signal, (piece) => {
        if (piece.usage) return void (end.usage = { prompt: piece.usage.prompt_tokens, tokens: piece.usage.completion_tokens, cached: piece.usage.prompt_tokens_details?.cached_tokens ?? 0 });
        if (piece.finish) return void (end.finish = piece.finish);
        if (piece.progress !== undefined) return void this.#change(id, message, { progress: piece.progress }, false);
        first ||= performance.now() - began;
        if (piece.text) text += piece.text;
        if (piece.reasoning) reasoning += piece.reasoning;
        if (piece.call) {
          const { index, id: callId, name, arguments: more } = piece.call;
          calls = [...calls];
          calls[index] = { id: callId ?? calls[index]?.id, name: name ?? calls[index]?.name, arguments: (calls[index]?.arguments ?? "") + more };
        }
        draw();
      });
    } catch (problem) {
      if (problem.name === "AbortError") end.cut = "Stopped.";
      else {
        end.problem = { kind: problem.kind ?? "other", words: problem.message, retryAfter: problem.retryAfter };
        if (problem.kind === "gone") connection.lost();
        if (problem.kind === "key") connection.needsKey?.();
      }
    }
    drawn = false;
    this.#running.delete(id);
    this.#change(id, message, { ...fields(), ...end, pending: false, totalMs: performance.now() - began }, true);
  }
}

function readSettings() {
  try {
    return JSON.parse(keep.setting("sampling", "{}"));
  } catch {
    return {};
  }
}

const kNumbers = ["temperature", "top_p", "top_k", "min_p", "repeat_penalty", "max_tokens", "seed"];

export function requestOf(conversation, leaf, model) {
  const settings = conversation.settings;
  const body = { model, messages: tree.requestMessages(conversation, leaf) };
  for (const name of kNumbers) if (settings[name] !== undefined && settings[name] !== "") body[name] = Number(settings[name]);
  if (settings.effort) body.reasoning_effort = settings.effort;
  if (settings.tools?.trim()) body.tools = JSON.parse(settings.tools);
  return body;
}

export const chats = new Chats();
