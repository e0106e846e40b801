// llama.cpp's part of second_turn.py, through node-llama-cpp: times to the first token behind prompts that begin alike.
//
//   node second_turn.mjs NODE_MODULES JOB.json
//
// JOB.json: {"model": file, "threads": n, "context": positions, "turns": [[ids], [ids]], "tokens": n}. Prints JSON: for each turn how many
// tokens were evaluated and the milliseconds to the first token, in one process; then the same for the last turn alone ("restarted").
import {createRequire} from "node:module";
import fs from "node:fs";
import path from "node:path";
import {pathToFileURL} from "node:url";

const [modules, jobFile] = process.argv.slice(2);
const entry = createRequire(path.resolve(modules, "x.js")).resolve("node-llama-cpp");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entry).href);
const job = JSON.parse(fs.readFileSync(jobFile, "utf8"));
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: job.threads});

async function run(turns) {
  const model = await llama.loadModel({modelPath: job.model, gpuLayers: 0, useMmap: true});
  const context = await model.createContext({contextSize: job.context, batchSize: 512, threads: job.threads, flashAttention: true});
  const sequence = context.getSequence();
  const results = [];
  let before = 0;
  for (const tokens of turns) {
    const begin = performance.now();
    await sequence.eraseContextTokenRanges([{start: before, end: sequence.nextTokenIndex}]); // what was generated is not what comes next
    const fresh = tokens.slice(before);
    const iterator = sequence.evaluate(fresh, {temperature: 0})[Symbol.asyncIterator]();
    await iterator.next();
    results.push({read: fresh.length, first_ms: performance.now() - begin});
    await iterator.return();
    before = tokens.length;
  }
  await context.dispose();
  await model.dispose();
  return results;
}

const together = await run(job.turns);
const [restarted] = await run([job.turns.at(-1)]);
console.log(JSON.stringify({together, restarted}));
await llama.dispose();
