// Everything that is known of one node, what its loss would mean, and its removal.
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
      <Remove node={node} />
    </section>
  );
}

function Remove({ node }) {
  const [asked, ask] = useState(false);
  const [note, say] = useState("");
  if (node.state === "removed") return <p class="note">It was removed, and is not let in again.</p>;
  const remove = async (key) => {
    if (!confirm(`Remove ${node.name}? What it does goes to the others, and it is not let in again.`)) return;
    try {
      await api.removeNode(node.key, key);
      say("Removed.");
    } catch (problem) {
      say(problem.message);
    }
  };
  if (!asked) return <button type="button" class="danger" onClick={() => ask(true)}>Remove from the cluster</button>;
  return <><KeyField onKey={remove} action={`Remove ${node.name}`} />{note && <p class="problem" role="alert">{note}</p>}</>;
}
