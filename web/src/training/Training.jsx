// Training runs: how far, how well, how fast, and what each node does.
import { useEffect } from "preact/hooks";
import { Chart } from "../cluster/Chart.jsx";
import { bytes, rate, seconds } from "../lib/units.js";
import { useStore } from "../lib/store_base.js";
import { columnsOf, timesOf } from "./columns.js";
import { runs } from "./runs.js";

const kStates = { running: "up", paused: "suspect", done: "up", stopped: "suspect", none: "suspect" };

export function Training() {
  useStore(runs);
  useEffect(() => runs.show(), []);
  const { list } = runs;
  return (
    <main class="cluster training">
      <header class="bar"><h1>Training</h1></header>
      {runs.problem && runs.problem.kind !== "gone" && <p class="problem" role="alert">{runs.problem.message}</p>}
      {list === undefined && !runs.problem && <p class="note" role="status">Asking the server…</p>}
      {list === null && <p>This server was told of no training run. Start one with <code>butterfly train cfg.yml</code>, and the server with <code>butterfly serve -m MODEL --training FOLDER</code>: the folder is the run's <code>output_dir</code>.</p>}
      {(list ?? []).map((run) => <Run key={run.folder} run={run} />)}
    </main>
  );
}

function Run({ run }) {
  if (run.state === "none") return <section><h2>{run.folder}</h2><p class="note">{run.why}</p></section>;
  const [steps, loss, valid, pace] = columnsOf(run);
  const memory = Object.values(run.memory_bytes ?? {}).reduce((sum, part) => sum + part, 0);
  const facts = [
    ["Step", run.steps ? `${run.step} of ${run.steps}` : `${run.step}`],
    ["Loss", run.last ? run.last.loss.toFixed(4) : null],
    ["Speed", run.last?.items_per_second ? `${rate(run.last.items_per_second)} ${run.unit ?? "items"}/s` : null],
    ["Left", run.state === "running" && run.seconds_left > 0 ? seconds(run.seconds_left) : null],
    ["Memory", memory > 0 ? `${bytes(memory)}: ${Object.entries(run.memory_bytes).filter(([, part]) => part > 0).map(([name, part]) => `${name} ${bytes(part)}`).join(", ")}` : null],
    ["Learning rate", run.last?.learning_rate ? run.last.learning_rate.toExponential(2) : null],
    ["Nodes", run.nodes.length > 0 ? `${run.nodes.length}${run.lost ? `, ${run.lost} lost so far` : ""}` : null],
  ].filter(([, text]) => text);
  return (
    <section class="run" aria-label={`Run ${run.folder}`}>
      <header class="bar"><h2>{run.name || run.folder}</h2><span class={`state ${kStates[run.state] ?? ""}`}>{run.state}</span></header>
      {run.steps > 0 && <progress max={run.steps} value={run.step} aria-label="Steps that are done">{run.step}</progress>}
      <dl>{facts.map(([name, text]) => <div key={name}><dt>{name}</dt><dd>{text}</dd></div>)}</dl>
      <section class="charts" aria-label="Charts by step">
        <Chart title="Loss" steps times={steps} rows={[{ name: "training", values: loss, colour: 0 }, { name: "validation", values: valid, colour: 1 }]} />
        <Chart title="Speed" unit={`${run.unit ?? "items"}/s`} steps times={steps} rows={[{ name: "all nodes", values: pace, colour: 2 }]} />
      </section>
      {run.nodes.length > 0 && <Nodes run={run} />}
    </section>
  );
}

function Nodes({ run }) {
  const { names, rows } = timesOf(run);
  return (
    <div class="table" tabIndex={0} aria-label="Times by node"><table>
      <thead><tr><th>Node</th><th>Micro-batches</th>{names.map((name) => <th key={name}>{name}</th>)}<th>Sent</th></tr></thead>
      <tbody>{rows.map(({ node, seconds: times }) => <tr key={node.name}><td>{node.name}{node.here ? " (here)" : ""}</td><td>{node.micro_batches}</td>{times.map((s, i) => <td key={names[i]}>{seconds(s)}</td>)}<td>{bytes(node.bytes_sent ?? 0)}</td></tr>)}</tbody>
    </table></div>
  );
}
