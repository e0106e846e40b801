// llama.cpp's token ids for texts, for tests that compare with them.
//
//   node tokens.mjs NODE_MODULES JOBS.json OUT.json
//
// JOBS.json: {"jobs": [{"model": file, "texts": [strings]}]}. OUT.json: for each job [[ids], ...], or a string that says why
// llama.cpp refused the model. Only vocabularies are read, and no control token is found in a text.
import {createRequire} from "node:module";
import fs from "node:fs";
import path from "node:path";
import {pathToFileURL} from "node:url";

const [modules, jobsFile, outFile] = process.argv.slice(2);
const entry = createRequire(path.resolve(modules, "x.js")).resolve("node-llama-cpp");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entry).href);
const {jobs} = JSON.parse(fs.readFileSync(jobsFile, "utf8"));

// "never": otherwise a missing binary starts a build of llama.cpp from source.
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.disabled, maxThreads: 1});
const results = [];
for (const job of jobs) {
  let model;
  try {
    model = await llama.loadModel({modelPath: job.model, gpuLayers: 0, vocabOnly: true});
  } catch (error) {
    results.push(String(error));
    continue;
  }
  results.push(job.texts.map((text) => model.tokenize(text, false)));
  await model.dispose();
}
fs.writeFileSync(outFile, JSON.stringify(results));
await llama.dispose();
