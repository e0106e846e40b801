// Asks the server for its cluster and its counters once a second while the view is shown, and keeps five minutes of them.
import * as api from "../lib/api.js";
import { connection } from "../lib/connection.js";
import { readMetrics } from "../lib/metrics.js";
import { Store } from "../lib/store_base.js";
import { computeUs } from "./facts.js";

const kEveryMs = 1000;
const kPoints = 300;
const kEventsMax = 300;

class Watch extends Store {
  status = undefined; // null: no cluster
  problem = null;
  events = []; // newest first
  times = []; // seconds since 1970
  series = {}; // name -> values, as long as `times`; null where nothing is known
  busy = new Map(); // node key -> share of the last second that it computed
  #after = 0;
  #incarnation = null;
  #metrics = null;
  #work = new Map();
  #timer = null;
  #shown = 0;

  // Until the returned function is called.
  show() {
    if (++this.#shown === 1) this.#ask();
    return () => {
      if (--this.#shown === 0) clearTimeout(this.#timer);
    };
  }

  async #ask() {
    clearTimeout(this.#timer);
    try {
      if (!document.hidden) {
        const [status, text] = await Promise.all([api.cluster(this.#after), api.metrics()]);
        this.#take(status, readMetrics(text));
      }
      this.problem = null;
    } catch (problem) {
      this.problem = problem;
      if (problem.kind === "gone") connection.lost();
    }
    this.changed();
    clearTimeout(this.#timer);
    if (this.#shown > 0) this.#timer = setTimeout(() => this.#ask(), kEveryMs);
  }

  #take(status, metrics) {
    const now = Date.now() / 1000;
    const dt = this.times.length ? now - this.times[this.times.length - 1] : 0;
    const values = {};
    const rateOf = (name) => (this.#metrics && dt > 0 ? Math.max(0, ((metrics[name] ?? 0) - (this.#metrics[name] ?? 0)) / dt) : null);
    values["generated"] = rateOf("vllm:generation_tokens_total");
    values["prompt"] = rateOf("vllm:prompt_tokens_total");
    values["running"] = metrics["vllm:num_requests_running"] ?? 0;
    values["waiting"] = metrics["vllm:num_requests_waiting"] ?? 0;
    this.#metrics = metrics;
    this.metrics = metrics;
    for (const node of status?.nodes ?? []) {
      const us = computeUs(node), before = this.#work.get(node.key);
      const share = before !== undefined && us >= before && dt > 0 ? Math.min(1, (us - before) / 1e6 / dt) : 0;
      this.#work.set(node.key, us);
      this.busy.set(node.key, node.state === "up" ? share : 0);
      values[`node ${node.name}`] = node.state === "up" ? 100 * share : null;
    }
    this.#push(now, values);
    if (status) {
      if (this.#incarnation !== null && status.incarnation !== this.#incarnation) this.events = [];
      this.#incarnation = status.incarnation;
      for (const event of status.events ?? []) {
        if (event.number <= this.#after && this.events.length) continue;
        this.events.unshift(event);
        this.#after = Math.max(this.#after, event.number);
      }
      this.events.length = Math.min(this.events.length, kEventsMax);
    }
    this.status = status;
  }

  #push(now, values) {
    this.times = [...this.times, now].slice(-kPoints);
    for (const name of new Set([...Object.keys(this.series), ...Object.keys(values)])) {
      const had = this.series[name] ?? new Array(this.times.length - 1).fill(null);
      this.series[name] = [...had, values[name] ?? null].slice(-this.times.length);
    }
  }
}

export const watch = new Watch();
