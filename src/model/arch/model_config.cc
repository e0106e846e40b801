#include "model/arch/model_config.h"

#include "base/error.h"

namespace butterfly::model {
namespace {

// Larger than any model; keeps later products far from overflow.
constexpr uint64_t kLayersMax = 4096;
constexpr uint64_t kSizeMax = uint64_t{1} << 24;

class ConfigReader {
 public:
  ConfigReader(const ModelFile& file, const std::string& arch) : file_(file), prefix_(arch + ".") {}

  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  bool has(std::string_view name) const { return file_.metadata().has(key(name)); }

  size_t size(std::string_view name, uint64_t most) const {
    return checked(name, file_.metadata().u64(key(name)), most);
  }
  size_t size_or(std::string_view name, uint64_t otherwise, uint64_t most) const {
    return has(name) ? size(name, most) : otherwise;
  }
  float f32_or(std::string_view name, float otherwise) const {
    return file_.metadata().f32_or(key(name), otherwise);
  }
  std::string string_or(std::string_view name, std::string_view otherwise) const {
    return file_.metadata().string_or(key(name), otherwise);
  }

 private:
  size_t checked(std::string_view name, uint64_t value, uint64_t most) const {
    if (value == 0 || value > most)
      fail(Errc::kCorrupt, "{}: key {}: expected 1 to {}, found {}", file_.path().string(), key(name), most,
           value);
    return value;
  }

  const ModelFile& file_;
  std::string prefix_;
};

kernels::RopeParams read_rope(const ModelFile& file, const ConfigReader& reader, const ModelConfig& config) {
  kernels::RopeParams rope;
  rope.head_dim = config.head_dim;
  rope.rotated = reader.size_or("rope.dimension_count", config.head_dim, config.head_dim);
  rope.base = reader.f32_or("rope.freq_base", 10000.0f);
  const std::string scaling =
      reader.string_or("rope.scaling.type", reader.has("rope.scale_linear") ? "linear" : "none");
  rope.scaling = kernels::rope_scaling_by_name(scaling);
  rope.factor = reader.f32_or("rope.scaling.factor", reader.f32_or("rope.scale_linear", 1.0f));
  rope.original_context = static_cast<double>(reader.size_or(
      "rope.scaling.original_context_length", static_cast<uint64_t>(config.context), kSizeMax));
  rope.attn_factor = reader.f32_or("rope.scaling.attn_factor", 1.0f);
  if (file.has("rope_freqs.weight")) {
    const Tensor factors = file.tensor("rope_freqs.weight", {static_cast<int64_t>(rope.rotated / 2)});
    if (factors.dtype() != DType::kF32)
      fail(Errc::kCorrupt, "{}: tensor rope_freqs.weight: expected type F32, found {}", file.path().string(),
           dtype_name(factors.dtype()));
    rope.freq_factors.assign(factors.data<float>(), factors.data<float>() + factors.count());
  }
  return rope;
}

}  // namespace

ModelConfig read_config(const ModelFile& file) {
  ModelConfig config;
  config.architecture = file.architecture();
  const ConfigReader reader(file, config.architecture);
  config.layers = reader.size("block_count", kLayersMax);
  config.dim = reader.size("embedding_length", kSizeMax);
  config.heads = reader.size("attention.head_count", config.dim);
  config.kv_heads = reader.size_or("attention.head_count_kv", config.heads, config.heads);
  config.ff = reader.size("feed_forward_length", kSizeMax);
  config.context = reader.size("context_length", kSizeMax * 64);
  config.norm_eps = reader.f32_or("attention.layer_norm_rms_epsilon", 1e-5f);
  const std::string name = file.path().string();
  if (!reader.has("attention.key_length") && config.dim % config.heads != 0)
    fail(Errc::kCorrupt, "{}: {} columns do not divide into {} heads", name, config.dim, config.heads);
  config.head_dim = reader.size_or("attention.key_length", config.dim / config.heads, 65536);
  if (reader.size_or("attention.value_length", config.head_dim, 65536) != config.head_dim)
    fail(Errc::kUnsupported, "{}: keys of {} values and values of another size are not supported", name,
         config.head_dim);
  if (config.heads % config.kv_heads != 0)
    fail(Errc::kCorrupt, "{}: {} heads do not divide into groups for {} KV heads", name, config.heads,
         config.kv_heads);

  const Tensor table = file.tensor("token_embd.weight");
  if (table.rank() != 2 || table.size(1) != static_cast<int64_t>(config.dim))
    fail(Errc::kCorrupt, "{}: tensor token_embd.weight: expected shape [vocabulary, {}], found {}", name,
         config.dim, table.shape().to_string());
  config.vocab = static_cast<size_t>(table.size(0));
  config.rope = read_rope(file, reader, config);
  return config;
}

}  // namespace butterfly::model
