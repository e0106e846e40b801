// Rope settings of config.json as GGUF has them.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/math.h"
#include "model/formats/file_kind.h"
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

}  // namespace

void read_rope_config(const JsonObject& config, const std::string& arch, uint32_t rotated,
                      double default_base, HfConfig& to) {
  if (rotated == 0 || rotated % 2 != 0 || rotated > kRotatedMax)
    fail(Errc::kCorrupt, "{}: {} values of a head turn, expected an even number up to {}", config.file(),
         rotated, kRotatedMax);
  // Newer files keep everything, the base too, under rope_parameters.
  const auto parameters = config.object("rope_parameters");
  const auto scaling = parameters ? parameters : config.object("rope_scaling");
  double base = default_base;
  if (parameters && parameters->has("rope_theta")) base = parameters->number("rope_theta");
  if (config.has("rope_theta")) base = config.number("rope_theta");
  to.metadata.set(arch + ".rope.freq_base", static_cast<float>(base));
  if (!scaling) return;

  const std::string type = scaling->string_or("rope_type", scaling->string_or("type", "default"));
  if (type == "default") return;
  if (type == "llama3") {
    to.tensors.push_back(factors_tensor("rope_freqs.weight", llama3_factors(*scaling, base, rotated)));
    return;
  }
  if (type == "longrope" || type == "su") return read_longrope(config, *scaling, arch, rotated, to);
  if (type != "linear" && type != "yarn")
    fail(Errc::kUnsupported,
         "{}: rope_scaling: type '{}' is not supported; linear, yarn, llama3 and longrope are", config.file(),
         printable(type));
  to.metadata.set(arch + ".rope.scaling.type", type);
  to.metadata.set(arch + ".rope.scaling.factor", scaling->f32("factor"));
  if (type == "yarn" && scaling->has("original_max_position_embeddings"))
    to.metadata.set(arch + ".rope.scaling.original_context_length",
                    scaling->u32("original_max_position_embeddings"));
}

}  // namespace butterfly::model
