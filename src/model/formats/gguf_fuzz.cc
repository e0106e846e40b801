// libFuzzer target: any bytes as a GGUF file. Allowed outcomes are a sound file and an Error.
//
//   cmake --preset fuzz && cmake --build build/fuzz --target gguf_fuzz
//   build/fuzz/bin/gguf_fuzz -runs=1000000 -max_len=4096 corpus-folder src/model/formats/gguf_fuzz_corpus
#include <cstdlib>

#include "base/error.h"
#include "model/formats/gguf.h"
#include "model/tokenizer/tokenizer.h"

namespace {

using namespace butterfly;
using namespace butterfly::model;

// A file that was accepted must be usable: every tensor inside it, every value printable, its tokenizer too.
void use(const GgufFile& file, std::span<const std::byte> bytes) {
  for (const GgufTensor& info : file.tensors()) {
    const Tensor tensor = file.tensor(info);
    const std::byte* begin = tensor.raw();
    if (begin < bytes.data() || begin + tensor.bytes() > bytes.data() + bytes.size()) std::abort();
    volatile std::byte ends[] = {begin[0], begin[tensor.bytes() - 1]};
    (void)ends;
  }
  for (const auto& entry : file.metadata().entries()) (void)meta_text(entry.value);
  if (!file.metadata().has("tokenizer.ggml.model")) return;
  const auto tokenizer = make_tokenizer(file.metadata());
  const auto ids = tokenizer->encode("Any text <s>\xf0\x9f\xa6 at all", {.parse_special = true});
  (void)tokenizer->decode(ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    use(GgufFile::parse(bytes, "fuzz"), bytes);
  } catch (const Error&) {
  }
  return 0;
}
