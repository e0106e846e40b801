// Starts the real program and runs named checks against it.
import { spawn, execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import assert from "node:assert/strict";

export const butterfly = process.argv[2];
export const work = process.argv[3];

export function makeModel(name, ...flags) {
  const file = `${work}/${name}.gguf`;
  execFileSync(butterfly, ["make-model", file, "--dim", "64", "--hidden", "128", "--layers", "2", "--heads", "4", "--vocab", "400",
    "--context", "2048", "--type", "f32", ...flags], { stdio: "ignore" });
  return file;
}

// A copy of a GGUF file with a chat template: one more key in its head.
export function setTemplate(source, name, template) {
  const data = readFileSync(source);
  const sizes = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
  const long = (at) => Number(data.readBigUInt64LE(at));
  const skipText = (at) => at + 8 + long(at);
  const skipValue = (kind, at) => {
    if (kind === 8) return skipText(at);
    if (kind !== 9) return at + sizes[kind];
    const inner = data.readUInt32LE(at), count = long(at + 4);
    at += 12;
    if (inner in sizes) return at + sizes[inner] * count;
    for (let i = 0; i < count; ++i) at = skipValue(inner, at);
    return at;
  };
  const tensorCount = long(8), keyCount = long(16);
  let at = 24;
  for (let i = 0; i < keyCount; ++i) {
    at = skipText(at);
    at = skipValue(data.readUInt32LE(at), at + 4);
  }
  const tensors = at;
  for (let i = 0; i < tensorCount; ++i) {
    at = skipText(at);
    at += 4 + 8 * data.readUInt32LE(at) + 4 + 8;
  }
  const begin = Math.ceil(at / 32) * 32;
  const u64 = (n) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(n)); return b; };
  const u32 = (n) => { const b = Buffer.alloc(4); b.writeUInt32LE(n); return b; };
  const text = (t) => Buffer.concat([u64(Buffer.byteLength(t)), Buffer.from(t)]);
  const more = Buffer.concat([text("tokenizer.chat_template"), u32(8), text(template)]);
  const head = Buffer.concat([data.subarray(0, 16), u64(keyCount + 1), data.subarray(24, tensors), more, data.subarray(tensors, at)]);
  const file = `${work}/${name}.gguf`;
  writeFileSync(file, Buffer.concat([head, Buffer.alloc((32 - head.length % 32) % 32), data.subarray(begin)]));
  return file;
}

export async function startServer(...flags) {
  const child = spawn(butterfly, ["serve", "--port", "0", "--management", `${work}/socket-${process.pid}-${Math.random().toString(36).slice(2, 8)}`, ...flags],
    { stdio: ["ignore", "inherit", "pipe"] });
  let log = "";
  const url = await new Promise((resolve, reject) => {
    child.stderr.on("data", (data) => {
      log += data;
      const found = log.match(/ at (https?:\/\/\S+)/);
      if (found) resolve(found[1]);
    });
    child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${log}`)));
  });
  return {
    url, child, log: () => log,
    async stop() {
      child.kill("SIGTERM");
      return new Promise((resolve) => child.on("exit", (code) => resolve(code)));
    },
  };
}

let failures = 0;
let count = 0;
export async function check(name, body) {
  ++count;
  try {
    await body();
    console.log(`ok ${name}`);
  } catch (error) {
    ++failures;
    console.log(`FAILED ${name}: ${error.stack ?? error}`);
  }
}

export function finish() {
  console.log(`${count} checks, ${failures} failed`);
  process.exit(failures === 0 ? 0 : 1);
}

// A tool and a schema that a model with random weights can be held to.
export const lightSchema = {
  type: "object",
  properties: { on: { type: "boolean" }, room: { type: "string", enum: ["kitchen", "hall"] } },
  required: ["on", "room"],
  additionalProperties: false,
};
export function assertLight(value) {
  assert.equal(typeof value.on, "boolean");
  assert.ok(["kitchen", "hall"].includes(value.room), JSON.stringify(value));
}
