// libFuzzer target: any bytes as a tokenizer.json. Allowed outcomes are a tokenizer that works and an Error.
//
//   cmake --preset fuzz && cmake --build build/fuzz --target tokenizer_json_fuzz
//   build/fuzz/bin/tokenizer_json_fuzz -runs=1000000 -max_len=4096 corpus-folder
#include <cstdlib>

#include "base/error.h"
#include "model/tokenizer/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace butterfly;
  using namespace butterfly::model;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = tokenizer_from_json(text, "", "fuzz");
    const auto ids = tokenizer->encode("Any text <s>\xf0\x9f\xa6 at all", {.parse_special = true});
    (void)tokenizer->decode(ids);
  } catch (const Error&) {
  }
  return 0;
}
