// Whether the server is there. While it is not, it is asked every two seconds, and everybody hears when it is back.
import { healthy } from "./api.js";
import { Store } from "./store_base.js";

const kAgainMs = 2000;

class Connection extends Store {
  state = "unknown"; // "up", "gone", "key", or "waiting" with words
  words = "";
  #timer = null;
  #back = new Set();

  onBack(action) {
    this.#back.add(action);
    return () => this.#back.delete(action);
  }

  // Something failed as if the server were gone.
  lost() {
    this.#set("gone", "The server does not answer. Looking for it…");
    this.#later();
  }

  async look() {
    try {
      const health = await healthy();
      if (health === true) this.#set("up", "");
      else {
        this.#set("waiting", health);
        this.#later();
      }
    } catch {
      this.lost();
    }
  }

  #later() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.look(), kAgainMs);
  }

  #set(state, words) {
    const back = state === "up" && this.state !== "up";
    if (state === this.state && words === this.words) return;
    this.state = state;
    this.words = words;
    this.changed();
    if (back) for (const action of this.#back) action();
  }
}

export const connection = new Connection();
