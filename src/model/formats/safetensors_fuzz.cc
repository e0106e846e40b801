// libFuzzer target: any bytes as config.json plus a safetensors file. Allowed outcomes are a sound model and
// an Error. The input is a config and a file, separated by a zero byte.
//
//   cmake --preset fuzz && cmake --build build/fuzz --target safetensors_fuzz
//   build/fuzz/bin/safetensors_fuzz -runs=1000000 -max_len=4096 corpus-folder
//   src/model/formats/safetensors_fuzz_corpus
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "model/formats/hf_architecture.h"
#include "model/formats/hf_tensors.h"
#include "model/formats/safetensors.h"
#include "model/testing/fuzz_parts.h"

namespace {

using namespace butterfly;
using namespace butterfly::model;

void touch(const Tensor& tensor) {
  if (tensor.count() == 0) return;
  volatile std::byte ends[] = {tensor.raw()[0], tensor.raw()[tensor.bytes() - 1]};
  (void)ends;
}

void use(std::string_view config_text, std::span<const std::byte> bytes) {
  const auto file =
      std::make_shared<const SafetensorsFile>(SafetensorsFile::parse(bytes, "fuzz.safetensors"));
  for (const SafetensorsTensor& info : file->tensors()) {
    if (info.offset > bytes.size() || info.bytes > bytes.size() - info.offset) std::abort();
    (void)info.shape().to_string();
    if (info.dtype) touch(file->tensor(info));
  }
  const nlohmann::json json = parse_json(config_text, "config.json");
  const JsonObject config(json, "config.json");
  const HfArchitecture& architecture = hf_architecture_of(config);
  HfConfig read{Metadata("config.json"), {}};
  architecture.read_config(config, std::string(architecture.gguf_name), read);
  const std::shared_ptr<const SafetensorsFile> shards[] = {file};
  for (const NamedTensor& tensor : map_hf_tensors(architecture, read.metadata, architecture.tied, shards)) {
    (void)tensor.count();
    if (tensor.view) touch(tensor.view);
    if (tensor.make) touch(tensor.make());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const FuzzParts parts(data, size, true);
  try {
    use(parts.text(), parts.file());
  } catch (const Error&) {
  }
  return 0;
}
