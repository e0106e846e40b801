// Models without their values: those of a file, and well-known ones by name, for planning before anything
// loads.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/formats/model_file.h"
#include "model/synthetic/random_model.h"

namespace butterfly::runtime {

// A published model's sizes.
struct NamedShape {
  std::string_view name;
  std::string_view words;
  model::RandomModelOptions (*options)();
};
std::span<const NamedShape> named_shapes();
const NamedShape* find_shape(std::string_view name);  // null: none of that name

// The model with matrices of this type, embedding and head of `vocabulary_type`. Values are never touched, so
// a model of any size is described in milliseconds.
model::ModelFile shape_file(const NamedShape& shape, DType matrix_type, DType vocabulary_type);
// The same for any sizes. Throws Error kUnsupported for an architecture that nobody lays out.
model::ModelFile shape_file(const model::RandomModelOptions& options, const std::string& name);

// The same tensors and metadata without the values of matrices. Vectors are kept.
model::ModelFile without_values(const model::ModelFile& file);

}  // namespace butterfly::runtime
