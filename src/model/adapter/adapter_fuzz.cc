// libFuzzer target: any bytes as an adapter, a GGUF file or what PEFT writes: a config and a safetensors
// file, separated by a zero byte. Allowed outcomes are an adapter that fits its model and an Error.
//
//   cmake --preset fuzz && cmake --build build/fuzz --target adapter_fuzz
//   build/fuzz/bin/adapter_fuzz -runs=1000000 -max_len=4096 corpus-folder
//   src/model/adapter/adapter_fuzz_corpus
#include <cstdlib>

#include "base/error.h"
#include "model/testing/adapter_in_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace butterfly;
  using namespace butterfly::model;
  static const ModelFile base = testing::fuzz_base_model();
  try {
    const Adapter adapter = testing::adapter_in_memory({data, size}, base);
    for (const LoraPair& pair : adapter.pairs)
      if (!testing::fits(adapter, pair, base) && base.has(pair.target)) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
