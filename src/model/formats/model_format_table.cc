// The model file formats, best first. The first row that does not object is used.
#include "model/formats/gguf_model.h"
#include "model/formats/hf_folder.h"
#include "model/formats/llama2c.h"
#include "model/formats/model_file.h"

namespace butterfly::model {
namespace {

constexpr ModelFormat kFormats[] = {
    {"gguf", gguf_why_not, gguf_open},
    {"hugging face folder", hf_why_not, hf_open},
    {"llama2.c", llama2c_why_not, llama2c_open},
};

}  // namespace

std::span<const ModelFormat> model_formats() { return kFormats; }

}  // namespace butterfly::model
