// The cluster: picture, plan, charts, links and events. A server without one shows what it does alone.
import { useEffect, useState } from "preact/hooks";
import { bytes, layers, plural, rate, seconds } from "../lib/units.js";
import { useStore } from "../lib/store_base.js";
import { Chart } from "./Chart.jsx";
import { jobsOf, orderedNodes, pairsOf } from "./facts.js";
import { Join } from "./Join.jsx";
import { NodePanel } from "./NodePanel.jsx";
import { Picture } from "./Picture.jsx";
import { watch } from "./watch.js";

export function Cluster() {
  useStore(watch);
  useEffect(() => watch.show(), []);
  const [selected, select] = useState(null);
  const [joining, join] = useState(false);
  const { status } = watch;
  if (status === undefined) return <main class="cluster"><p class="note" role="status">{watch.problem ? watch.problem.message : "Asking the server…"}</p></main>;
  const node = status?.nodes.find((n) => n.key === selected);
  return (
    <main class="cluster">
      <header class="bar">
        <h1>{status ? "Cluster" : "One machine"}</h1>
        {status && <span class={`state ${status.serving ? "up" : "suspect"}`}>{status.serving ? "serving" : "not serving"}</span>}
        <span class="grow" />
        {status && <button type="button" class="main" onClick={() => join(true)}>Add a machine</button>}
      </header>
      {watch.problem && watch.problem.kind !== "gone" && <p class="problem" role="alert">{watch.problem.message}</p>}
      {!status && <p>This server works alone. A cluster to try on this machine: <code>butterfly serve -m MODEL --local-nodes 3</code>; one of several machines: <code>butterfly init</code>, then <code>butterfly serve -m MODEL --cluster</code>.</p>}
      {status && !status.serving && status.reason && <p class="problem" role="status">{status.reason}</p>}
      {status && <Picture status={status} busy={watch.busy} selected={selected} onSelect={(key) => select(key === selected ? null : key)} />}
      {node && <NodePanel key={node.key} status={status} node={node} onClose={() => select(null)} />}
      {status && <Plans status={status} />}
      <Charts status={status} />
      {status && <><Losses status={status} /><Links status={status} /><Events /></>}
      {joining && <Join onClose={() => join(false)} />}
    </main>
  );
}

function Plans({ status }) {
  const order = orderedNodes(status).map((n) => n.key);
  return (
    <section>
      <h2>Plan</h2>
      {jobsOf(status).map((job) => (
        <div class="job" key={job.job}>
          <p><b>{job.model}</b> {job.serving ? `· plan ${job.plan}, for ${seconds(job.serving_s)}` : `· ${job.reason || "not served"}`}
            {job.change && ` · changing: ${job.change}`}
            {job.predicted_tokens_per_s > 0 && ` · ${rate(job.predicted_tokens_per_s)} tokens/s predicted`}</p>
          <ol class="strip" aria-label={`Layers of ${job.model}`}>
            {(job.stages ?? []).map((stage) => (
              <li key={stage.begin} style={{ flexGrow: stage.end - stage.begin }}>
                {stage.members.map((m) => <span key={m.key} class={`c${order.indexOf(m.key) % 8}`}>{m.node}<small>{layers(stage.begin, stage.end, job.layers)}</small></span>)}
              </li>
            ))}
          </ol>
          {job.words && <p class="note">{job.words}</p>}
        </div>
      ))}
    </section>
  );
}

function Charts({ status }) {
  const { times, series } = watch;
  const row = (key, name, colour) => ({ name, values: series[key] ?? times.map(() => null), colour });
  return (
    <section class="charts" aria-label="Live charts">
      <Chart title="Tokens" unit="/s" times={times} rows={[row("generated", "written", 0), row("prompt", "read", 1)]} />
      <Chart title="Requests" times={times} rows={[row("running", "running", 0), row("waiting", "waiting", 1)]} />
      {status && <Chart title="Busy" unit="%" times={times} rows={orderedNodes(status).map((n, i) => row(`node ${n.name}`, n.name, i))} />}
    </section>
  );
}

function Losses({ status }) {
  const rows = status.nodes.flatMap((node) => (node.jobs?.length ? node.jobs : [node]).filter((j) => j.if_lost).map((j) => ({ node, loss: j.if_lost, job: j.job })));
  if (rows.length === 0) return null;
  return (
    <section><h2>If a node were lost</h2>
      <div class="table" tabIndex={0}><table><thead><tr><th>Node</th><th>Tokens/s then</th><th>Times slower</th><th>What happens</th></tr></thead>
        <tbody>{rows.map(({ node, loss, job }) => <tr key={node.key + job}><td>{node.name}</td><td>{loss.fits ? rate(loss.tokens_per_s) : "–"}</td><td>{loss.fits && loss.times_slower > 0 ? loss.times_slower.toFixed(2) : "–"}</td><td>{loss.words || (loss.fits ? "the others take its part" : "does not fit on the others")}</td></tr>)}</tbody></table></div>
    </section>
  );
}

function Links({ status }) {
  const pairs = pairsOf(status).filter((p) => p.rtt_s !== undefined || p.broken);
  if (pairs.length === 0 && status.refused.length === 0) return null;
  return (
    <section><h2>Links</h2>
      {pairs.length > 0 && <div class="table" tabIndex={0}><table><thead><tr><th>Between</th><th>Round trip</th><th>Bandwidth</th><th /></tr></thead>
        <tbody>{pairs.map((p) => <tr key={p.a + p.b}><td>{p.a} – {p.b}</td><td>{p.rtt_s === undefined ? "–" : seconds(p.rtt_s)}</td><td>{p.bytes_per_s === undefined ? "–" : `${bytes(p.bytes_per_s)}/s`}</td><td>{p.broken ? `cannot be reached: ${p.broken}` : p.chain ? "used by the plan" : ""}</td></tr>)}</tbody></table></div>}
      {status.refused.map((r) => <p class="problem" key={r.key}>{r.name || r.key.slice(0, 12)} was refused {plural(r.times, "time")}: {r.why}</p>)}
    </section>
  );
}

function Events() {
  return (
    <section><h2>Events</h2>
      <ul class="events" tabIndex={0} aria-label="Events, newest first">
        {watch.events.slice(0, 100).map((e) => <li key={e.number}><time>{new Date(e.unix_ms).toLocaleTimeString([], { hour12: false })}</time> <b>{e.kind}</b> {e.node && <span class="dim">{e.node}</span>} {e.text}</li>)}
        {watch.events.length === 0 && <li class="note">Nothing has happened yet.</li>}
      </ul>
    </section>
  );
}
