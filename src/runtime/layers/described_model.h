// A model without its weights: what a server needs that has them elsewhere.
#pragma once
#include <filesystem>
#include <memory>

#include "runtime/layers/loaded_model.h"

namespace butterfly::runtime {

// File, config and tokenizer, as load_model() reads them; `network` is null. Throws Error as load_model()
// does.
std::unique_ptr<LoadedModel> describe_model(const std::filesystem::path& path,
                                            const LoadOptions& options = {});

}  // namespace butterfly::runtime
