// libFuzzer target: any bytes as a SentencePiece model. Allowed outcomes are a tokenizer that works and an
// Error.
//
//   cmake --preset fuzz && cmake --build build/fuzz --target sentencepiece_fuzz
//   build/fuzz/bin/sentencepiece_fuzz -runs=1000000 -max_len=4096 corpus-folder
#include "base/error.h"
#include "model/tokenizer/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace butterfly;
  using namespace butterfly::model;
  try {
    const auto tokenizer = tokenizer_from_sentencepiece(std::as_bytes(std::span(data, size)), "fuzz");
    const auto ids = tokenizer->encode("Any text <s>\xf0\x9f\xa6 at all", {.parse_special = true});
    (void)tokenizer->decode(ids);
  } catch (const Error&) {
  }
  return 0;
}
