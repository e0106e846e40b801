// Rope settings of config.json as GGUF has them.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "kernels/math/math.h"
#include "model/formats/hf_architecture.h"

namespace butterfly::model {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr uint32_t kRotatedMax = 65536;

NamedTensor factors_tensor(std::string name, std::vector<float> values) {
  Tensor tensor = Tensor::zeros(DType::kF32, Shape{static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.data<float>());
  return NamedTensor(std::move(name), tensor, 0);
}

// Llama 3.1's divisors, one per pair: slow pairs are divided by `factor`, fast ones stay, a ramp between.
std::vector<float> llama3_factors(const JsonObject& scaling, double base, uint32_t rotated) {
  const double factor = scaling.has("factor") ? scaling.number("factor") : 8;
  const double low = scaling.has("low_freq_factor") ? scaling.number("low_freq_factor") : 1;
  const double high = scaling.has("high_freq_factor") ? scaling.number("high_freq_factor") : 4;
  const double old_context = scaling.u32_or("original_max_position_embeddings", 8192);
  if (!(factor > 0)) scaling.mismatch("factor", "a number above 0");
  if (!(low > 0)) scaling.mismatch("low_freq_factor", "a number above 0");
  if (!(high > low)) scaling.mismatch("high_freq_factor", "a number above low_freq_factor");
  std::vector<float> factors;
  for (uint32_t i = 0; i < rotated; i += 2) {
    const double wavelength = 2 * kPi * kernels::pow_f64(base, static_cast<double>(i) / rotated);
    double divisor = 1;
    if (wavelength > old_context / low) {
      divisor = factor;
    } else if (wavelength >= old_context / high) {
      const double smooth = (old_context / wavelength - low) / (high - low);
      divisor = 1 / ((1 - smooth) / factor + smooth);
    }
    factors.push_back(static_cast<float>(divisor));
  }
  return factors;
}

// Phi 3's two lists of divisors, for contexts below and above the original one, and their magnitude.
void read_longrope(const JsonObject& config, const JsonObject& scaling, const std::string& arch,
                   uint32_t rotated, HfConfig& to) {
  for (const char* which : {"long", "short"}) {
    const std::string key = std::string(which) + "_factor";
    std::vector<float> factors = scaling.numbers(key);
    if (factors.size() != rotated / 2)
      fail(Errc::kCorrupt, "{}: rope_scaling: key {}: expected {} numbers, found {}", config.file(), key,
           rotated / 2, factors.size());
    to.tensors.push_back(
        factors_tensor(std::string("rope_factors_") + which + ".weight", std::move(factors)));
  }
  const double context = config.u32("max_position_embeddings");
  const double original = config.u32_or("original_max_position_embeddings", static_cast<uint32_t>(context));
  const double ratio = original > 1 ? context / original : 1;
  const double magnitude =
      ratio <= 1 ? 1 : std::sqrt(1 + kernels::log_f64(ratio) / kernels::log_f64(original));
  to.metadata.set(arch + ".rope.scaling.attn_factor", static_cast<float>(magnitude));
}

// YaRN's settings beyond the factor. Its magnitude is 0.1 ln(factor) + 1 unless the file gives another, which
// GGUF keeps as a multiple of that.
void read_yarn(const JsonObject& scaling, const std::string& prefix, Metadata& metadata) {
  if (scaling.has("original_max_position_embeddings"))
    metadata.set(prefix + "original_context_length", scaling.u32("original_max_position_embeddings"));
  if (scaling.has("beta_fast")) metadata.set(prefix + "yarn_beta_fast", scaling.f32("beta_fast"));
  if (scaling.has("beta_slow")) metadata.set(prefix + "yarn_beta_slow", scaling.f32("beta_slow"));
  if (!scaling.has("attention_factor")) return;
  const double factor = scaling.number("factor");
  if (!(factor > 0)) scaling.mismatch("factor", "a number above 0");
  const double usual = factor <= 1 ? 1 : 0.1 * kernels::log_f64(factor) + 1;
  metadata.set(prefix + "attn_factor", static_cast<float>(scaling.number("attention_factor") / usual));
}

// Where the settings are: the old rope_scaling; the newer rope_parameters, which has the base too; there
// possibly apart for layers with and without a window.
struct RopeSettings {
  std::optional<JsonObject> scaling;
  std::optional<double> base, local_base;
};
RopeSettings find_rope_settings(const JsonObject& config) {
  RopeSettings found;
  found.scaling = config.object("rope_scaling");
  if (const auto parameters = config.object("rope_parameters")) {
    const auto whole = parameters->object("full_attention"), local = parameters->object("sliding_attention");
    found.scaling = whole ? whole : parameters;
    if (found.scaling->has("rope_theta")) found.base = found.scaling->number("rope_theta");
    if (local && local->has("rope_theta")) found.local_base = local->number("rope_theta");
  }
  if (config.has("rope_theta")) found.base = config.number("rope_theta");
  if (config.has("rope_local_base_freq")) found.local_base = config.number("rope_local_base_freq");
  return found;
}

}  // namespace

void read_rope_config(const JsonObject& config, const std::string& arch, uint32_t rotated,
                      double default_base, HfConfig& to) {
  if (rotated == 0 || rotated % 2 != 0 || rotated > kRotatedMax)
    fail(Errc::kCorrupt, "{}: {} values of a head are rotated, expected an even number up to {}",
         config.file(), rotated, kRotatedMax);
  const RopeSettings settings = find_rope_settings(config);
  const auto& scaling = settings.scaling;
  const double base = settings.base.value_or(default_base);
  to.metadata.set(arch + ".rope.freq_base", static_cast<float>(base));
  if (settings.local_base)
    to.metadata.set(arch + ".rope.freq_base_swa", static_cast<float>(*settings.local_base));
  if (!scaling) return;

  const std::string type = scaling->string_or("rope_type", scaling->string_or("type", "default"));
  // "dynamic" changes the base with the length of the text, but only beyond max_position_embeddings, which is
  // our context: up to there it is "default". Beyond, keys in a cache would have to be rotated again.
  if (type == "default" || type == "dynamic") return;
  if (type == "llama3") {
    to.tensors.push_back(factors_tensor("rope_freqs.weight", llama3_factors(*scaling, base, rotated)));
    return;
  }
  if (type == "longrope" || type == "su") return read_longrope(config, *scaling, arch, rotated, to);
  if (type != "linear" && type != "yarn")
    fail(Errc::kUnsupported,
         "{}: rope_scaling: type '{}' is not supported; linear, dynamic, yarn, llama3 and longrope are",
         config.file(), printable(type));
  to.metadata.set(arch + ".rope.scaling.type", type);
  to.metadata.set(arch + ".rope.scaling.factor", scaling->f32("factor"));
  if (type == "yarn") read_yarn(*scaling, arch + ".rope.scaling.", to.metadata);
}

}  // namespace butterfly::model
