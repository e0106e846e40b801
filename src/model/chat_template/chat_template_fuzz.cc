// libFuzzer target: any bytes as a template and the variables it is rendered with (JSON), separated by a zero
// byte. Allowed outcomes are a text within the limits and an Error.
//
//   cmake --preset fuzz && cmake --build build/fuzz --target chat_template_fuzz
//   seeds=src/model/chat_template/chat_template_fuzz_corpus
//   build/fuzz/bin/chat_template_fuzz -runs=1000000 -max_len=4096 corpus-folder $seeds
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "model/chat_template/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace butterfly;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const std::string_view variables =
      zero == input.npos ? R"({"messages": [{"role": "user", "content": "hi"}], "tools": null})"
                         : input.substr(zero + 1);
  model::ChatTemplate::Limits limits;
  // Small, so that a run takes well below a millisecond: the limits are the same code at any size.
  limits.steps = 2'000;
  limits.output_bytes = size_t{1} << 13;
  limits.value_bytes = size_t{1} << 16;
  try {
    const auto chat = model::ChatTemplate::compile(input.substr(0, zero), limits);
    if (chat.render_variables(variables).size() > limits.output_bytes) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
