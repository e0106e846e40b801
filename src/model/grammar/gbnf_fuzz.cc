// libFuzzer target: any bytes as a grammar and as choices of tokens under it, separated by a zero byte.
// Allowed outcomes are an Error and texts that follow the masks: a token that the mask allows is accepted,
// one that it does not is refused, and the text never comes to a place without any way on.
//
//   cmake --preset fuzz && cmake --build build/fuzz --target gbnf_fuzz
//   build/fuzz/bin/gbnf_fuzz -runs=1000000 -max_len=512 corpus-folder src/model/grammar/gbnf_fuzz_corpus
#include <cstdint>

#include "model/grammar/gbnf.h"
#include "model/grammar/testing/fuzz_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace butterfly::model::grammar;
  static const auto index = small_vocabulary();
  fuzz_walk(data, size, *index, 12, true, [&](std::string_view text) { return gbnf_grammar(text, index); });
  return 0;
}
