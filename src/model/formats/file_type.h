// Names that people give to quantised files ("Q4_K_M"), llama.cpp's numbers for them, and which element type
// each tensor of such a file gets.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/formats/model_file.h"

namespace butterfly::model {

struct FileType {
  std::string_view name;
  uint32_t number;  // general.file_type
  DType base;       // of most matrices
  std::string_view words;
};

std::span<const FileType> file_types();
// Any case; "Q4_K" is Q4_K_M, as in llama.cpp. Null for an unknown name.
const FileType* file_type_by_name(std::string_view name);
// The number of a file that is mostly of this type; 1024 (llama.cpp's "guessed") where there is none.
uint32_t file_type_number(DType dtype);

// The types of all tensors of `file` as a file of `type`, in their order. The rules are llama.cpp's: matrices
// get the base type; attn_v and some ffn_down of the mixes more bits; the output (or the embedding that
// serves as output) Q6_K; rows that the type's blocks do not divide a type of smaller blocks. Vectors,
// routers and position tables stay floats. `pure`: every matrix the base type.
std::vector<DType> plan_types(const ModelFile& file, const FileType& type, bool pure = false);

// Whether a tensor is one that quantisation touches.
bool is_quantisable(const NamedTensor& tensor);

// The type instead of `type` for rows of `columns` values.
DType type_for_row(DType type, int64_t columns);

}  // namespace butterfly::model
