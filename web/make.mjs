// Makes the page and the C++ file that carries it, in a folder of the build: nothing is written beside the sources.
//   node make.mjs SOURCE_FOLDER BUILD_FOLDER AUTO|ON
// AUTO: where npm cannot get the packages (no network), a file that says so takes its place, and the build goes on.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { embed } from "./embed.mjs";

const [source, folder, wanted] = process.argv.slice(2);
const output = join(folder, "page_files.cc");
const kInstallMs = 180_000;

function run(log, command, args) {
  try {
    const text = execFileSync(command, args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], timeout: kInstallMs, env: { ...process.env, NODE_ENV: "development" } });
    writeFileSync(join(folder, log), text);
  } catch (error) {
    const text = `${error.stdout ?? ""}${error.stderr ?? ""}` || String(error);
    writeFileSync(join(folder, log), text);
    throw new Error(`'${command} ${args[0]}' failed: ${text.trim().split("\n").find((line) => /err/i.test(line)) ?? "no words"} (all of it: ${join(folder, log)})`);
  }
}

function make() {
  for (const name of ["src", "index.html", "vite.config.js", "package.json", "package-lock.json", ".npmrc"]) {
    rmSync(join(folder, name), { recursive: true, force: true });
    cpSync(join(source, name), join(folder, name), { recursive: true });
  }
  const lock = readFileSync(join(folder, "package-lock.json"), "utf8");
  const installed = join(folder, "installed.json");
  if (!existsSync(installed) || readFileSync(installed, "utf8") !== lock) {
    run("npm.log", "npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]);
    writeFileSync(installed, lock);
  }
  run("vite.log", process.execPath, [join("node_modules", "vite", "bin", "vite.js"), "build"]);
  console.log(embed(join(folder, "dist"), output));
}

mkdirSync(folder, { recursive: true });
try {
  make();
} catch (error) {
  if (wanted !== "AUTO") throw error;
  console.log(`no web page in the program: ${error.message}`);
  const words = JSON.stringify(`This program was built without its web page: ${error.message}. Remove ${output} and build again to get it.`);
  const stand_in = readFileSync(join(source, "..", "src", "server", "web", "no_page.cc"), "utf8");
  writeFileSync(output, stand_in.replace(/return "This[^;]*;/, `return ${words};`));
}
