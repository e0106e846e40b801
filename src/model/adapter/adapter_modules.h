// Which tensor of a model file a module of Hugging Face's is, and back: what adapters of both worlds share.
#pragma once
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/formats/hf_architecture.h"
#include "model/formats/model_file.h"

namespace butterfly::model {

struct AdapterTarget {
  std::string name;  // GGUF's tensor, "blk.3.attn_q.weight"
  HfValues values;   // how its rows stand there
  size_t expert;     // kExpert: which of the experts in the tensor
};
// The tensor that a module ("model.layers.3.self_attn.q_proj") is in GGUF; nothing: there is none.
std::optional<AdapterTarget> target_of(std::string_view module, std::string_view architecture);

struct AdapterModule {
  std::string name;  // "model.layers.3.self_attn.q_proj"
  HfValues values;
  std::string_view last() const { return std::string_view(name).substr(name.rfind('.') + 1); }
};
// The module that a tensor is in Hugging Face's model, with @ for the number of an expert; nothing: there is
// none of its own.
std::optional<AdapterModule> module_of(std::string_view tensor, std::string_view architecture);

// The matrices that adapters are to be added to, in the file's order: of the blocks, and the output layer's.
// Modules are named as PEFT names them ("q_proj"), or as GGUF does ("attn_q"); "all-linear" stands for all of
// attention, of what is in its place, and of feed-forward parts, but not for experts. `takes`: the tensors
// whose layers take adapters (adaptable_tensors()). Throws Error kInvalidArgument for names that none of them
// has, naming those that exist, and kUnsupported for matrices that cannot have one.
std::vector<std::string> adapter_targets(const ModelFile& file, std::span<const std::string> modules,
                                         const std::set<std::string>& takes);

}  // namespace butterfly::model
