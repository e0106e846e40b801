// Reads GGUF files that butterfly wrote with @huggingface/gguf and compares keys and tensors with `butterfly show`.
//   node gguf_test.mjs BUTTERFLY FILE...
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are installed in the build folder, not beside this file.
const require = createRequire(process.env.NODE_MODULES_PARENT + "/");
const { gguf, GGMLQuantizationType } = await import(pathToFileURL(require.resolve("@huggingface/gguf")).href);

function expectEqual(place, found, expected) {
  const [a, b] = [found, expected].map((value) =>
    JSON.stringify(value, (_, v) => (typeof v === "bigint" ? Number(v) : v)));
  if (a !== b) throw new Error(`${place}: @huggingface/gguf reads ${a}, butterfly shows ${b}`);
}

const [butterfly, ...files] = process.argv.slice(2);
for (const file of files) {
  const { metadata, tensorInfos } = await gguf(file, { allowLocalFile: true });
  const shown = JSON.parse(execFileSync(butterfly, ["show", file, "--json", "--metadata", "--tensors"], { maxBuffer: 1 << 28 }));
  expectEqual(`${file}: version`, metadata.version, 3);
  expectEqual(`${file}: tensors`, tensorInfos.length, shown.tensors.length);
  tensorInfos.forEach((info, i) => {
    const expected = shown.tensors[i];
    const place = `${file}: tensor ${expected.name}`;
    expectEqual(place, info.name, expected.name);
    expectEqual(`${place}: shape`, [...info.shape].reverse(), expected.shape); // GGUF keeps the innermost size first
    expectEqual(`${place}: type`, GGMLQuantizationType[info.dtype], expected.type);
  });
  for (const [key, value] of Object.entries(shown.metadata)) expectEqual(`${file}: key ${key}`, metadata[key], value);
  console.log(`${file}: ${tensorInfos.length} tensors, ${Object.keys(shown.metadata).length} keys`);
}
