// Coding agents that people use, offline: each writes a file, reads it and says what it found, through their own tools.
//
// Random weights decide nothing by themselves. So a relay stands before the server and adds to each request the grammar of what is
// to be said next; prompts, streams, calls and results go between agent and server as they are.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import { butterfly, check, finish, makeModel, startServer, work } from "./harness.mjs";

const key = "bf-0123456789abcdef";
const marker = "the caterpillar is green";
const server = await startServer("-m", "tiny=" + makeModel("agents", "--layers", "1", "--context", "262144"), "-c", "200000", "--api-key", key);

const quoted = (text) => '"' + text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n") + '"';
const call = (name, args) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
const results = (body) => // of tools, in the three interfaces
  (body.input ?? []).filter((item) => item.type === "function_call_output").length +
  (body.messages ?? []).reduce((sum, m) => sum + (m.role === "tool" ? 1 : Array.isArray(m.content) ? m.content.filter((b) => b.type === "tool_result").length : 0), 0);

// What each of them says, and what came of it.
let script = [];
let seen = [];
const relay = http.createServer((request, answer) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    let body = Buffer.concat(pieces);
    let turn = null;
    if (request.method === "POST" && body.length > 0 && /\/(messages|responses|completions)(\?|$)/.test(request.url)) {
      const json = JSON.parse(body);
      turn = json.tools?.length ? Math.min(results(json), script.length - 1) : null;
      json.grammar = `root ::= ${quoted(turn === null ? "Files" : script[turn])}`;
      body = Buffer.from(JSON.stringify(json));
    }
    const headers = { ...request.headers, "content-length": body.length };
    delete headers["accept-encoding"];
    const to = http.request(server.url + request.url, { method: request.method, headers }, (from) => {
      answer.writeHead(from.statusCode, from.headers);
      let text = "";
      from.on("data", (piece) => { text += piece; answer.write(piece); });
      from.on("end", () => { seen.push({ path: request.url, status: from.statusCode, turn, text }); answer.end(); });
    });
    to.on("error", () => answer.destroy());
    to.end(body);
  });
});
await new Promise((resolve) => relay.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${relay.address().port}`;

async function launch(name, folder, ...flags) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  seen = [];
  const env = { ...process.env, HOME: `${work}/home`, PATH: `${work}/node_modules/.bin:${process.env.PATH}`, BUTTERFLY_API_KEY: key, PWD: folder };
  mkdirSync(env.HOME, { recursive: true });
  const child = spawn(butterfly, ["launch", name, "--url", url, "--model", "tiny", "--", ...flags], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"], timeout: 280000 });
  let out = "", errors = "";
  child.stdout.on("data", (data) => (out += data));
  child.stderr.on("data", (data) => (errors += data));
  const code = await new Promise((resolve) => child.on("close", resolve));
  return { code, out, errors };
}

async function task(name, path, steps, ...flags) {
  const folder = `${work}/${name}`;
  script = [...steps(folder).map(([tool, args]) => call(tool, args)), `The file says that ${marker}.`];
  const { code, out, errors } = await launch(name, folder, ...flags);
  const said = `${out}\n${errors}`.slice(-2000) + seen.map((one) => `\n${one.path} ${one.status} turn ${one.turn}: ${one.text.slice(-600)}`).join("");
  const failed = seen.filter((one) => one.path.startsWith(path) && one.status !== 200);
  assert.deepEqual(failed.map((one) => [one.status, one.text.slice(0, 300)]), []);
  assert.ok(existsSync(`${folder}/hello.txt`), said);
  assert.equal(readFileSync(`${folder}/hello.txt`, "utf8").trim(), marker, said);
  assert.ok(out.includes(`The file says that ${marker}.`), said);
  assert.equal(code, 0, said);
  const turns = seen.filter((one) => one.path.startsWith(path) && one.turn !== null);
  assert.deepEqual([...new Set(turns.map((one) => one.turn))], [0, 1, 2]);
  // The agent's long beginning is read once.
  const read = turns.at(-1).text.match(/"(?:cache_read_input_tokens|cached_tokens)":(\d+)/g).map((text) => Number(text.match(/\d+/)));
  assert.ok(Math.max(...read) > 5000, `${read}`);
  console.log(`  ${name}: ${turns.length} turns, ${Math.max(...read)} tokens of the last one's prompt were kept`);
}

await check("Claude Code, over /v1/messages", () => task("claude", "/v1/messages",
  (folder) => [["Write", { file_path: `${folder}/hello.txt`, content: marker }], ["Read", { file_path: `${folder}/hello.txt` }]],
  "-p", "Write hello.txt and read it", "--permission-mode", "acceptEdits"));
await check("Codex, over /v1/responses", () => task("codex", "/v1/responses",
  () => [["exec_command", { cmd: `echo ${marker} > hello.txt` }], ["exec_command", { cmd: "cat hello.txt" }]],
  "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Write hello.txt and read it"));
await check("OpenCode, over /v1/chat/completions", () => task("opencode", "/v1/chat/completions",
  (folder) => [["write", { filePath: `${folder}/hello.txt`, content: marker }], ["read", { filePath: `${folder}/hello.txt` }]],
  "run", "Write hello.txt and read it"));
await check("SIGTERM ends it cleanly", async () => assert.equal(await server.stop(), 0));
relay.close();
finish();
