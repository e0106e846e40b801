#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "model/arch/network.h"
#include "model/metadata/architecture_names.h"

namespace butterfly::model {
namespace {

constexpr Architecture kArchitectures[] = {
    {"llama", "Llama 1 to 3, Mistral, Mixtral, TinyLlama, SmolLM", load_llama},
    {"qwen2", "Qwen 2 and 2.5", load_qwen2},
    {"qwen3", "Qwen 3", load_qwen3},
    {"qwen3moe", "Qwen 3 with experts", load_qwen3moe},
    {"gpt2", "GPT-2", load_gpt2},
    {"phi3", "Phi 3 and 4", load_phi3},
    {"gemma2", "Gemma 2", load_gemma2},
    {"gemma3", "Gemma 3, text", load_gemma3},
};
static_assert(covers_architectures(kArchitectures, &Architecture::name));

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture& architecture_of(const ModelFile& file) {
  std::vector<std::string_view> names;
  for (const Architecture& row : kArchitectures) {
    if (row.name == file.architecture()) return row;
    names.push_back(row.name);
  }
  fail(Errc::kUnsupported, "{}: architecture '{}' is not supported; this build knows {}",
       file.path().string(), file.architecture(), fmt::join(names, ", "));
}

}  // namespace butterfly::model
