// llama.cpp's logits after each of some token ids, for tests that compare with them.
//
//   node logits.mjs NODE_MODULES JOBS.json
//
// JOBS.json: {"threads": 1, "jobs": [{"model": file, "tokens": [ids], "context": positions, "out": file,
// "adapter": optional file, "adapterScale": optional number}]}. Each out file gets tokens x vocabulary float32 values. The cache
// is F32 and flash attention is off, so that llama.cpp rounds nothing that the model file does not ask it to round.
import {createRequire} from "node:module";
import fs from "node:fs";
import path from "node:path";
import {pathToFileURL} from "node:url";

const [modules, jobsFile] = process.argv.slice(2);
const entry = createRequire(path.resolve(modules, "x.js")).resolve("node-llama-cpp");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entry).href);
const {jobs, threads} = JSON.parse(fs.readFileSync(jobsFile, "utf8"));

// "never": otherwise a missing binary starts a build of llama.cpp from source.
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: threads ?? 1});

for (const job of jobs) {
  const model = await llama.loadModel({modelPath: job.model, gpuLayers: 0, useMmap: true});
  const context = await model.createContext({
    contextSize: job.context,
    batchSize: job.tokens.length,
    threads: threads ?? 1,
    flashAttention: false,
    experimentalKvCacheKeyType: "F32",
    experimentalKvCacheValueType: "F32",
    lora: job.adapter ? {adapters: [{filePath: job.adapter, scale: job.adapterScale ?? 1}]} : undefined
  });
  const sequence = context.getSequence();
  const wanted = {generateNext: {logits: true, options: {temperature: 1, topK: 0, topP: 1, minP: 0}}};
  const results = await sequence.controlledEvaluate(job.tokens.map((token) => [token, wanted]));
  const out = fs.openSync(job.out, "w");
  for (const result of results) {
    const logits = result.next.logits;
    const row = new Float32Array(logits.size);
    for (const [token, value] of logits) row[token] = value;
    fs.writeSync(out, Buffer.from(row.buffer));
  }
  fs.closeSync(out);
  await context.dispose();
  await model.dispose();
}
await llama.dispose();
