// What the page computes without a browser: trees of messages, streams of events, texts of counters.
import assert from "node:assert/strict";
import { test } from "node:test";
import { jobsOf, orderedNodes, pairsOf, partsOf, placesOf } from "../src/cluster/facts.js";
import * as tree from "../src/lib/conversation.js";
import { readMetrics } from "../src/lib/metrics.js";
import { readEvents } from "../src/lib/sse.js";
import * as units from "../src/lib/units.js";
import { columnsOf, timesOf } from "../src/training/columns.js";

test("editing makes a branch and keeps the other", () => {
  let c = tree.newConversation({ system: " be brief " });
  c = tree.add(c, null, { role: "user", content: "one" });
  const first = c.messages[c.leaf];
  c = tree.add(c, c.leaf, { role: "assistant", content: "1" });
  c = tree.add(c, first.parent, { role: "user", content: "two" });
  const second = c.messages[c.leaf];
  assert.deepEqual(tree.path(c).map((m) => m.content), ["two"]);
  assert.deepEqual(tree.siblings(c, second).map((m) => m.content), ["one", "two"]);
  c = tree.select(c, first.id);
  assert.deepEqual(tree.path(c).map((m) => m.content), ["one", "1"]);
  assert.deepEqual(tree.requestMessages(c, c.leaf), [{ role: "system", content: "be brief" }, { role: "user", content: "one" }, { role: "assistant", content: "1" }]);
  assert.equal(c.title, "one");
});

test("answers without text are not sent back, calls and results are", () => {
  let c = tree.add(tree.newConversation(), null, { role: "user", content: "q" });
  c = tree.add(c, c.leaf, { role: "assistant", content: "" });
  assert.equal(tree.requestMessages(c, c.leaf).length, 1);
  c = tree.change(c, c.leaf, { calls: [{ id: "c1", name: "f", arguments: "{}" }] });
  c = tree.add(c, c.leaf, { role: "tool", call: "c1", content: "7" });
  const sent = tree.requestMessages(c, c.leaf);
  assert.equal(sent[1].tool_calls[0].function.name, "f");
  assert.deepEqual(sent[2], { role: "tool", tool_call_id: "c1", content: "7" });
});

test("a file cannot end its own fence", () => {
  const text = tree.fullText({ content: "what is this?", files: [{ name: "a.md", text: "```\nx\n````" }] });
  assert.match(text, /^File a\.md:\n`{5}\n```\nx\n````\n`{5}\n\nwhat is this\?$/);
});

test("what was exported can be imported, and nothing else", () => {
  let c = tree.add(tree.newConversation(), null, { role: "user", content: "hi", secret: 1 });
  c = tree.add(c, c.leaf, { role: "assistant", content: "there", reasoning: "hm" });
  const [back] = tree.imported(tree.exported([c]));
  assert.deepEqual(tree.path(back).map((m) => [m.content, m.reasoning]), [["hi", undefined], ["there", "hm"]]);
  assert.notEqual(back.id, c.id);
  assert.equal(Object.values(back.messages)[0].secret, undefined);
  assert.throws(() => tree.imported("no"), /not JSON/);
  assert.throws(() => tree.imported("{}"), /holds no conversations/);
  const loop = { form: tree.kForm, conversations: [{ messages: { a: { id: "a", parent: "b", role: "user" }, b: { id: "b", parent: "a", role: "user" } } }] };
  assert.throws(() => tree.imported(JSON.stringify(loop)), /follows itself/);
});

test("search looks for all words, anywhere", () => {
  const c = tree.add(tree.newConversation(), null, { role: "user", content: "The red Fox" });
  assert.ok(tree.matches(c, "fox red"));
  assert.ok(!tree.matches(c, "fox blue"));
});

test("events are found wherever the stream is cut", async () => {
  const bytes = new TextEncoder().encode(': ping\n\ndata: {"a":"é"}\n\ndata: [DONE]\r\n\r\n');
  for (let cut = 0; cut <= bytes.length; ++cut) {
    const seen = [];
    const stream = new ReadableStream({ start(c) { c.enqueue(bytes.slice(0, cut)); c.enqueue(bytes.slice(cut)); c.close(); } });
    await readEvents(stream, (data) => seen.push(data));
    assert.deepEqual(seen, ['{"a":"é"}', "[DONE]"], `cut at ${cut}`);
  }
});

test("counters are summed over models", () => {
  const m = readMetrics('# HELP a b\na{model_name="x"} 2\na{model_name="y"} 3\nb 1.5\nh_bucket{le="1"} 9\nbad NaN\n');
  assert.deepEqual(m, { a: 5, b: 1.5 });
});

test("numbers as people read them", () => {
  assert.equal(units.bytes(999), "999 B");
  assert.equal(units.bytes(1.25e9), "1.3 GB");
  assert.equal(units.seconds(0.00021), "210 µs");
  assert.equal(units.seconds(0.0021), "2.1 ms");
  assert.equal(units.seconds(75), "75 s");
  assert.equal(units.layers(0, 3, 8), "embedding, layers 0–1");
  assert.equal(units.layers(3, 4, 8), "layer 2");
  assert.equal(units.layers(3, 8, 8), "layers 2–5, output");
  assert.equal(units.layers(0, 8, 8), "embedding, layers 0–5, output");
  assert.equal(units.layers(7, 8, 8), "output");
});

const kStatus = {
  words: "why", jobs: [{ job: 1, model: "m", layers: 6, stages: [
    { begin: 0, end: 2, members: [{ node: "b", key: "kb", bytes: 10, share: {} }] },
    { begin: 2, end: 6, members: [{ node: "a", key: "ka", bytes: 20, share: { heads: [0, 1, 4] } }, { node: "c", key: "kc", bytes: 5, share: { heads: [1, 4, 4] } }] }] }],
  nodes: [{ name: "a", key: "ka", jobs: [{ job: 1, if_lost: { words: "gone" } }] }, { name: "b", key: "kb" }, { name: "c", key: "kc" }, { name: "d", key: "kd" }],
  links: [{ from: "a", to: "b", rtt_s: 1, bytes_per_s: 5 }, { from: "b", to: "a", rtt_s: 2, bytes_per_s: 4 }],
  unreachable: [{ from: "d", to: "a", why: "no route" }],
};

test("the picture follows the chain", () => {
  assert.deepEqual(orderedNodes(kStatus).map((n) => n.name), ["b", "a", "c", "d"]);
  assert.equal(jobsOf(kStatus)[0].words, "why");
  assert.equal(jobsOf({ model: "old", stages: [] })[0].job, 1);
  assert.deepEqual(jobsOf({ jobs: [] }), [], "a cluster may have nothing to do");
  const [part] = partsOf(kStatus, kStatus.nodes[0], units.layers);
  assert.equal(part.text, "layers 1–3, output, 25 % of each");
  assert.equal(part.ifLost.words, "gone");
  const pairs = pairsOf(kStatus);
  const ab = pairs.find((p) => p.a === "a" && p.b === "b");
  assert.deepEqual([ab.rtt_s, ab.bytes_per_s, ab.chain], [2, 4, true]);
  assert.equal(pairs.find((p) => p.a === "a" && p.b === "d").broken, "no route");
  assert.ok(pairs.find((p) => p.a === "a" && p.b === "c").chain);
});

test("rows are snakes", () => {
  const { columns, places } = placesOf(5, 700, { width: 200, height: 100 }, { x: 50, y: 50 });
  assert.equal(columns, 3);
  assert.deepEqual(places.map((p) => [p.row, p.column]), [[0, 0], [0, 1], [0, 2], [1, 2], [1, 1]]);
  assert.equal(placesOf(2, 100, { width: 200, height: 100 }, { x: 50, y: 50 }).columns, 1);
});

test("runs of training as columns", () => {
  const run = { points: [[1, 2.5, null, 10], [2, 2.0, 2.1, 12]], nodes: [{ name: "a", seconds: { compute: 3, wait: 1 } }, { name: "b", seconds: { compute: 2 } }] };
  assert.deepEqual(columnsOf(run), [[1, 2], [2.5, 2.0], [null, 2.1], [10, 12]]);
  assert.deepEqual(columnsOf({}), [[], [], [], []]);
  const { names, rows } = timesOf(run);
  assert.deepEqual(names, ["compute", "wait"]);
  assert.deepEqual(rows.map((r) => r.seconds), [[3, 1], [2, 0]]);
});
