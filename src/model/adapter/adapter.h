// LoRA adapters: small matrices that are added to a model's products when it runs, y = W x + s B (A x).
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/formats/model_file.h"
#include "model/formats/safetensors.h"
#include "nn/moe.h"

namespace butterfly::model {

// What an adapter adds to one matrix of the model, or to each of the experts that are stacked in one tensor.
// To the embedding, of which rows are looked up, it adds B a with row a of A.
struct LoraPair {
  std::string target;  // the model's tensor, "blk.0.attn_q.weight"
  Tensor a;            // [rank, in], F32; [experts, rank, in]; [vocabulary, rank] for the embedding
  Tensor b;            // [out, rank], F32; [experts, out, rank]

  int64_t rank() const { return b.shape().back(); }
  bool of_experts() const { return b.rank() == 3; }
  Shape changed() const;  // of the tensor that it fits
};
inline constexpr std::string_view kEmbeddingTensor = "token_embd.weight";
// The output layer's, also where its matrix is the embedding's.
inline constexpr std::string_view kHeadTensor = "output.weight";

// In memory as floats; immutable, unless it learns.
struct Adapter {
  std::filesystem::path path;
  float alpha = 0;       // 0: the pairs are not divided by their rank
  bool by_root = false;  // divided by the square root of the rank ("rslora")
  float scale = 1;       // the user's
  bool learns = false;   // layers read the pairs' own memory, as floats that are trained
  std::vector<LoraPair> pairs;

  const LoraPair* find(std::string_view target) const;
  // scale * alpha / rank, as llama.cpp and PEFT define it; or / sqrt(rank).
  float scale_of(const LoraPair& pair) const;
};

// An adapter as the user names it: "file" or "file:0.5".
struct AdapterSpec {
  std::filesystem::path path;
  float scale = 1;
};
// The part behind the last colon is the scale if it is a number, unless a file of the whole name exists.
AdapterSpec parse_adapter_spec(const std::string& text);

// Opens a GGUF adapter (general.type "adapter", adapter.type "lora") or a folder that PEFT wrote, for the
// model `base`. Throws Error that names the file, the tensor, the expected and the found; kInvalidArgument if
// it is for another architecture.
Adapter open_adapter(const AdapterSpec& spec, const ModelFile& base);

// Of a folder that PEFT wrote.
inline constexpr const char* kPeftConfig = "adapter_config.json";
inline constexpr const char* kPeftWeights = "adapter_model.safetensors";

// The same for files that are open already. `config` is the text of kPeftConfig.
Adapter read_gguf_adapter(const AdapterSpec& spec, const ModelFile& file, const ModelFile& base);
Adapter read_peft_adapter(const AdapterSpec& spec, std::string_view config, const SafetensorsFile& file,
                          const ModelFile& base);

// Pairs from named tensors, in the order of their targets. Throws Error kCorrupt if one of a pair is missing
// or their ranks differ. For the readers of adapter formats. One thread.
class LoraPairs {
 public:
  explicit LoraPairs(std::string file) : file_(std::move(file)) {}
  // Keeps the values as floats.
  void add(const std::string& target, bool is_a, const std::string& name, const Tensor& tensor,
           bool transpose = false);
  // The same for one of the experts that are stacked in a tensor of shape `whole`; those that nothing is
  // added for stay as they are.
  void add_expert(const std::string& target, const Shape& whole, size_t expert, bool is_a,
                  const std::string& name, const Tensor& tensor);
  std::vector<LoraPair> finish() &&;

 private:
  Tensor floats(const std::string& name, const Tensor& tensor) const;

  std::string file_;
  std::map<std::string, LoraPair> pairs_;  // so that the order does not depend on the file's
};

// The pair as a layer takes it, for those rows of a matrix of shape `whole` in `file` that `rows` takes out
// of B. Throws Error kInvalidArgument naming both shapes when they do not fit.
nn::LowRank low_rank(const Adapter& adapter, const LoraPair& pair, const ModelFile& file, const Shape& whole,
                     const std::function<Tensor(const Tensor&)>& rows);

// The same for all rows and columns [begin, end): A has those columns, or is empty where there are none.
nn::LowRank low_rank_columns(const Adapter& adapter, const LoraPair& pair, const ModelFile& file,
                             const Shape& whole, size_t begin, size_t end);

// The same for experts [begin, end) of those stacked in a tensor.
nn::ExpertLowRank low_rank_experts(const Adapter& adapter, const LoraPair& pair, const ModelFile& file,
                                   const Shape& whole, size_t begin, size_t end);

// The same for the embedding, [vocabulary, dim]: `a` is then a table without a packed form.
nn::LowRank low_rank_rows(const Adapter& adapter, const LoraPair& pair, const ModelFile& file,
                          const Shape& whole);

}  // namespace butterfly::model
