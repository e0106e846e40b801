#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "model/arch/network.h"

namespace butterfly::model {
namespace {

constexpr Architecture kArchitectures[] = {
    {"llama", "Llama 1 to 3, Mistral, TinyLlama, SmolLM", load_llama},
};

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
