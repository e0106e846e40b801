// A transformer without the values that it learns: what a machine needs to build any range of its layers.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/formats/model_file.h"
#include "train/networks/transformer.h"

namespace butterfly::train {

struct NetworkOutline {
  model::ModelFile file;           // its tensors that learn are zeros, made for who asks for them
  std::vector<std::string> names;  // of all parameters, in their order
};

// The key of a file's metadata that has the names, a line each.
inline constexpr const char* kOutlineNamesKey = "butterfly.outline.parameters";
std::vector<std::string> outline_names(const model::Metadata& metadata);
std::string names_text(std::span<const std::string> names);

// `names`: of the parameters of the whole network, as its trainer orders them. Tensors that nothing learns
// are written with their values.
void write_outline(const Transformer& whole, std::span<const std::string> names,
                   const std::filesystem::path& path);
// Throws Error naming the file for what write_outline() did not write.
NetworkOutline read_outline(const std::filesystem::path& path);

// Pieces of the chain as planners count them: the embedding, every block, the head.
inline size_t pieces_of(const model::ModelConfig& config) { return config.layers + 2; }
// The piece that a parameter belongs to; of a table that head and embedding share (`tied`), the head's.
size_t piece_of_parameter(const model::ModelFile& file, size_t layers, bool tied, const std::string& name);

}  // namespace butterfly::train
