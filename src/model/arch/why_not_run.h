// Whether a model file can be run, without its values.
#pragma once
#include <string>

#include "model/formats/model_file.h"

namespace butterfly::model {

// What running the file would say against it: a key, a tensor, a shape or the tokenizer. Empty: nothing.
// Looks at one layer at a time and reads no matrix.
std::string why_not_run(const ModelFile& file);

}  // namespace butterfly::model
