// Hugging Face folders written by tests: config.json and safetensors from a short description.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/testing/temp_dir.h"
#include "tensor/dtype.h"

namespace butterfly::model::testing {

struct HfTestTensor {
  std::string name;
  std::vector<int64_t> sizes;
};

// The bytes of a safetensors file. Value i of tensor t is t + i / 1024, exact in F32; BF16 and F16 get its
// upper bits, U8 the byte 31 t + 7 i.
std::string safetensors_bytes(const std::vector<HfTestTensor>& tensors, const std::string& type = "F32");

// config.json of a tiny model of this class.
nlohmann::json tiny_config(const std::string& class_name);

}  // namespace butterfly::model::testing
