// Everything that is known of one node, what its loss would mean, and what an operator can do with it.
import { useState } from "preact/hooks";
import * as api from "../lib/api.js";
import { bytes, layers, plural, rate, seconds } from "../lib/units.js";
import { partsOf } from "./facts.js";
import { KeyField } from "./Join.jsx";

export function NodePanel({ status, node, onClose }) {
  const parts = partsOf(status, node, layers);
  const rows = [
    ["State", node.state + (node.silent_s > 1.5 && node.state !== "up" ? `, silent for ${seconds(node.silent_s)}` : "")],
    ["Processor", `${node.cpu || "unknown"}, ${plural(node.cores, "core")}, ${node.target}`],
    ["Memory", `${bytes(node.ram_free_bytes)} free of ${bytes(node.ram_bytes)}`],
    ["Disk", node.disk_bytes_per_s > 0 ? `${bytes(node.disk_bytes_per_s)}/s` : null],
    ["Address", node.address],
    ["Program", node.version],
    ["Clock", Math.abs(node.clock_ahead_s) > 0.05 ? `${seconds(Math.abs(node.clock_ahead_s))} ${node.clock_ahead_s > 0 ? "ahead" : "behind"}` : null],
    ["Drain", node.drain ? node.drain.state + (node.drain.why_not ? `: ${node.drain.why_not}` : "") : null],
    ["Held back", node.held_s > 0 ? `left out of plans for ${seconds(node.held_s)}` : null],
    ["Last failure", node.last_failure],
  ].filter(([, text]) => text);
  return (
    <section class="facts" aria-label={`Node ${node.name}`}>
      <header><h2>{node.name}</h2><button type="button" class="quiet" onClick={onClose}>Close</button></header>
      <dl>{rows.map(([name, text]) => <div key={name}><dt>{name}</dt><dd>{text}</dd></div>)}</dl>
      {parts.map((part) => (
        <p key={part.model}><b>{part.model}</b>: {part.text}, {bytes(part.bytes)}, {seconds(part.predicted_s)} of a step predicted.{" "}
          {part.ifLost && <span class="loss">If it were lost: {part.ifLost.words || (part.ifLost.fits ? `the others go on at ${rate(part.ifLost.tokens_per_s)} tokens/s` : "the others have no room for its part")}</span>}</p>
      ))}
      <Operate node={node} />
    </section>
  );
}

// What an operator can do with a node. The key is asked for once the button is pressed.
const kActions = {
  drain: { title: "Drain", why: "Its layers move to the others, and running answers go on; it stays in the cluster.", done: "Its layers move to the others.", go: api.drainNode },
  resume: { title: "Use it again", why: "Plans may give it layers again.", done: "It is used again.", go: api.resumeNode },
  remove: { title: "Remove from the cluster", why: "What it does goes to the others, and it is not let in again.", done: "Removed.", go: api.removeNode, danger: true },
};

function Operate({ node }) {
  const [asked, ask] = useState(null);
  const [note, say] = useState("");
  if (node.state === "removed") return <p class="note">It was removed, and is not let in again.</p>;
  const act = async (key) => {
    if (asked === "remove" && !confirm(`Remove ${node.name}? ${kActions.remove.why}`)) return;
    try {
      await kActions[asked].go(node.key, key);
      say(kActions[asked].done);
      ask(null);
    } catch (problem) {
      say(problem.message);
    }
  };
  const choices = [node.drain ? "resume" : "drain", "remove"];
  return (
    <>
      <p class="actions">{choices.map((name) => <button key={name} type="button" class={kActions[name].danger ? "danger" : "quiet"} aria-expanded={asked === name} onClick={() => { say(""); ask(asked === name ? null : name); }}>{kActions[name].title}</button>)}</p>
      {asked && <><p class="note">{kActions[asked].why}</p><KeyField onKey={act} action={`${kActions[asked].title.split(" ")[0]} ${node.name}`} /></>}
      {note && <p class={note === kActions.drain.done || note === kActions.resume.done || note === kActions.remove.done ? "note" : "problem"} role="alert">{note}</p>}
    </>
  );
}
