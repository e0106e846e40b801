// libFuzzer target: any bytes as a JSON schema and as choices of tokens under it, separated by a zero byte.
// Allowed outcomes are an Error and texts that follow the masks.
//
//   cmake --preset fuzz && cmake --build build/fuzz --target schema_fuzz
//   build/fuzz/bin/schema_fuzz -runs=1000000 -max_len=512 corpus-folder src/model/grammar/schema_fuzz_corpus
#include <cstdint>

#include "model/grammar/compile_budget.h"
#include "model/grammar/testing/fuzz_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace butterfly::model::grammar;
  static const auto index = small_vocabulary();
  const CompileBudget budget(100'000);  // a hundredth of what it is, so that runs are short
  // The style of the JSON by its length: all three see every input sooner or later.
  JsonEnvelope envelope;
  envelope.style = static_cast<JsonStyle>(size % 3);
  fuzz_walk(data, size, *index, 64, false,
            [&](std::string_view text) { return compile_schema(text, index, envelope); });
  return 0;
}
