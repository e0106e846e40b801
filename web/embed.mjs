// Turns what Vite made into one C++ file that carries it: gzipped, by .incbin, so that compiling it costs nothing.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { extname, join, relative } from "node:path";
import { gzipSync } from "node:zlib";

const kTypes = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };

function filesIn(path) {
  return readdirSync(path).sort().flatMap((name) => {
    const full = join(path, name);
    return statSync(full).isDirectory() ? filesIn(full) : full.endsWith(".gz") ? [] : [full];
  });
}

export function embed(folder, output) {
  const files = filesIn(folder).map((path, index) => {
    const type = kTypes[extname(path)];
    if (!type) throw new Error(`${path}: no content type for this file; add it to kTypes`);
    const packed = gzipSync(readFileSync(path), { level: 9 });
    writeFileSync(`${path}.gz`, packed);
    return { path, name: relative(folder, path), type, index, size: packed.length, hash: createHash("sha256").update(packed).digest("hex") };
  });
  const symbols = files.map(({ path, index, hash }) => `// ${hash}
asm(R"(.section .rodata
.global butterfly_page_${index}
.global butterfly_page_${index}_end
butterfly_page_${index}: .incbin "${path}.gz"
butterfly_page_${index}_end:
.byte 0
.previous)");
extern "C" const char butterfly_page_${index}[], butterfly_page_${index}_end[];`);
  const rows = files.map(({ name, type, index }) => `      {"${name}", "${type}", {butterfly_page_${index}, static_cast<size_t>(butterfly_page_${index}_end - butterfly_page_${index})}},`);
  writeFileSync(output, `// Made by web/embed.mjs.
#include "server/web/page.h"

${symbols.join("\n")}

namespace butterfly::server {

std::span<const PageFile> page_files() {
  static const PageFile files[] = {
${rows.join("\n")}
  };
  return files;
}

std::string_view why_no_page() { return {}; }

}  // namespace butterfly::server
`);
  const total = files.reduce((sum, file) => sum + file.size, 0);
  return `the page: ${files.length} files, ${total} bytes gzipped`;
}
