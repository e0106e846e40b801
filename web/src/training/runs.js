// Asks the server for its training runs every two seconds while the view is shown.
import * as api from "../lib/api.js";
import { connection } from "../lib/connection.js";
import { Store } from "../lib/store_base.js";

const kEveryMs = 2000;

class Runs extends Store {
  list = undefined; // null: the server was told of none
  problem = null;
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
    try {
      if (!document.hidden) this.list = await api.training();
      this.problem = null;
    } catch (problem) {
      this.problem = problem;
      if (problem.kind === "gone") connection.lost();
    }
    this.changed();
    clearTimeout(this.#timer);
    if (this.#shown > 0) this.#timer = setTimeout(() => this.#ask(), kEveryMs);
  }
}

export const runs = new Runs();
