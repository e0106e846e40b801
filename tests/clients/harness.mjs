// Starts the real program and runs named checks against it.
import { spawn, execFileSync } from "node:child_process";
import assert from "node:assert/strict";

export const butterfly = process.argv[2];
export const work = process.argv[3];

export function makeModel(name, ...flags) {
  const file = `${work}/${name}.gguf`;
  execFileSync(butterfly, ["make-model", file, "--dim", "64", "--hidden", "128", "--layers", "2", "--heads", "4", "--vocab", "400",
    "--context", "2048", "--type", "f32", ...flags], { stdio: "ignore" });
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
