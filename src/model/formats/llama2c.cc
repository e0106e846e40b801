#include "model/formats/llama2c.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "base/checked.h"
#include "base/error.h"
#include "model/formats/byte_reader.h"

namespace butterfly::model {
namespace {

constexpr uint32_t kMagic = 0x616b3432;  // "ak42"
constexpr size_t kHeaderBytesV0 = 7 * sizeof(int32_t);
constexpr size_t kHeaderBytesV1 = 256;
// Bounds far above any llama2.c model, so that a wrong guess about the format ends here.
constexpr int32_t kDimMax = 1 << 20;
constexpr int32_t kLayersMax = 4096;
constexpr int32_t kVocabMax = 1 << 24;

struct Header {
  uint32_t version = 0;
  uint64_t dim = 0, hidden = 0, layers = 0, heads = 0, kv_heads = 0, vocab = 0, context = 0;
  bool tied = true;    // the output matrix is the embedding
  uint64_t group = 0;  // version 2: values that share a scale
  size_t bytes = 0;    // of the header itself

  uint64_t head_dim() const { return dim / heads; }
  uint64_t kv_dim() const { return head_dim() * kv_heads; }
};

// Either a header that makes sense or the reason why it does not.
struct Parsed {
  Header header;
  std::string objection;
};

std::string check_fields(const int32_t (&f)[7]) {
  const auto [dim, hidden, layers, heads, kv_heads, vocab, context] = f;
  const auto out_of = [](std::string_view name, int32_t value, int32_t max) {
    return fmt::format("{}: expected 1 to {}, found {}", name, max, value);
  };
  if (dim < 1 || dim > kDimMax) return out_of("dim", dim, kDimMax);
  if (hidden < 1 || hidden > kDimMax) return out_of("hidden_dim", hidden, kDimMax);
  if (layers < 1 || layers > kLayersMax) return out_of("n_layers", layers, kLayersMax);
  if (heads < 1 || heads > dim) return out_of("n_heads", heads, dim);
  if (kv_heads < 1 || kv_heads > heads) return out_of("n_kv_heads", kv_heads, heads);
  if (vocab == 0 || vocab > kVocabMax || vocab < -kVocabMax) return out_of("vocab_size", vocab, kVocabMax);
  if (context < 1 || context > kDimMax * 16) return out_of("seq_len", context, kDimMax * 16);
  if (dim % heads != 0 || dim / heads % 2 != 0)
    return fmt::format("dim {} does not split into {} heads of even size", dim, heads);
  if (heads % kv_heads != 0)
    return fmt::format("{} heads do not share {} key-value heads evenly", heads, kv_heads);
  return {};
}

Parsed parse_header(std::span<const std::byte> head) {
  Parsed parsed;
  Header& h = parsed.header;
  uint32_t magic = 0;
  if (head.size() >= sizeof magic) std::memcpy(&magic, head.data(), sizeof magic);
  const bool versioned = magic == kMagic;
  h.bytes = versioned ? kHeaderBytesV1 : kHeaderBytesV0;
  if (head.size() < h.bytes) {
    parsed.objection = fmt::format("header: expected {} bytes, found {}", h.bytes, head.size());
    return parsed;
  }
  size_t at = 0;
  if (versioned) {
    std::memcpy(&h.version, head.data() + 4, sizeof h.version);
    at = 8;
    if (h.version != 1 && h.version != 2) {
      parsed.objection = fmt::format("version: expected 0 to 2, found {}", h.version);
      return parsed;
    }
  }
  int32_t fields[7];
  std::memcpy(fields, head.data() + at, sizeof fields);
  parsed.objection = check_fields(fields);
  if (!parsed.objection.empty()) return parsed;
  const auto [dim, hidden, layers, heads, kv_heads, vocab, context] = fields;
  h.dim = static_cast<uint64_t>(dim);
  h.hidden = static_cast<uint64_t>(hidden);
  h.layers = static_cast<uint64_t>(layers);
  h.heads = static_cast<uint64_t>(heads);
  h.kv_heads = static_cast<uint64_t>(kv_heads);
  h.context = static_cast<uint64_t>(context);
  // Version 0 marks an untied output matrix by a negative vocabulary size, version 1 by a byte.
  h.vocab = static_cast<uint64_t>(vocab < 0 ? -vocab : vocab);
  h.tied = versioned ? head[at + sizeof fields] != std::byte{0} : vocab > 0;
  if (versioned && vocab < 0)
    parsed.objection = fmt::format("vocab_size: expected at least 1, found {}", vocab);
  if (h.version == 2) {
    int32_t group = 0;
    std::memcpy(&group, head.data() + at + sizeof fields + 1, sizeof group);
    if (group < 1 || dim % group != 0 || hidden % group != 0)
      parsed.objection = fmt::format("group_size: expected a divisor of dim {} and hidden_dim {}, found {}",
                                     dim, hidden, group);
    else
      h.group = static_cast<uint64_t>(group);
  }
  return parsed;
}

// Hands out consecutive tensors. Sizes were bounded above, so the arithmetic cannot overflow 64 bits
// (2^20 * 2^24 * 4096 values of 4 bytes is 2^58).
class Layout {
 public:
  struct Part {
    std::string name;
    Shape shape;
    uint64_t offset;
    bool grouped = false;  // int8 values, then a float for each group of them
  };

  explicit Layout(const Header& header) : h_(header), at_(header.bytes) {
    if (h_.version == 0)
      legacy();
    else
      newer();
  }
  const std::vector<Part>& parts() const { return parts_; }
  uint64_t file_bytes() const { return at_; }

 private:
  void matrix(std::string name, uint64_t rows, uint64_t cols) {
    const bool grouped = h_.version == 2;
    parts_.push_back(
        {std::move(name), Shape{static_cast<int64_t>(rows), static_cast<int64_t>(cols)}, at_, grouped});
    at_ += grouped ? rows * cols + rows * cols / h_.group * sizeof(float) : rows * cols * sizeof(float);
  }
  void vector(std::string name, uint64_t size) {
    parts_.push_back({std::move(name), Shape{static_cast<int64_t>(size)}, at_});
    at_ += size * sizeof(float);
  }
  // The file keeps all layers of one kind together.
  void layer_vectors(std::string_view role) {
    for (uint64_t l = 0; l < h_.layers; ++l) vector(fmt::format("blk.{}.{}.weight", l, role), h_.dim);
  }
  void layer_matrices(std::string_view role, uint64_t rows, uint64_t cols) {
    for (uint64_t l = 0; l < h_.layers; ++l) matrix(fmt::format("blk.{}.{}.weight", l, role), rows, cols);
  }
  void attention() {
    layer_matrices("attn_q", h_.dim, h_.dim);
    layer_matrices("attn_k", h_.kv_dim(), h_.dim);
    layer_matrices("attn_v", h_.kv_dim(), h_.dim);
    layer_matrices("attn_output", h_.dim, h_.dim);
  }
  void feed_forward() {
    layer_matrices("ffn_gate", h_.hidden, h_.dim);  // w1
    layer_matrices("ffn_down", h_.dim, h_.hidden);  // w2
    layer_matrices("ffn_up", h_.hidden, h_.dim);    // w3
  }
  void legacy() {
    matrix("token_embd.weight", h_.vocab, h_.dim);
    layer_vectors("attn_norm");
    attention();
    layer_vectors("ffn_norm");
    feed_forward();
    vector("output_norm.weight", h_.dim);
    at_ += h_.context * h_.head_dim() * sizeof(float);  // RoPE tables, cos and sin: recomputed by us
    if (!h_.tied) matrix("output.weight", h_.vocab, h_.dim);
  }
  void newer() {
    layer_vectors("attn_norm");
    layer_vectors("ffn_norm");
    vector("output_norm.weight", h_.dim);
    matrix("token_embd.weight", h_.vocab, h_.dim);
    attention();
    feed_forward();
    if (!h_.tied) matrix("output.weight", h_.vocab, h_.dim);
  }

  const Header& h_;
  uint64_t at_;
  std::vector<Part> parts_;
};

// Version 2's values as floats: exactly what its numbers say. GGUF's Q8_0 would round the scales.
Tensor ungrouped(const std::shared_ptr<MappedFile>& mapping, const Layout::Part& part, uint64_t group) {
  const auto count = static_cast<size_t>(part.shape.count());
  Tensor to = Tensor::zeros(DType::kF32, part.shape);
  MappedFile::guard([&] {
    const std::byte* values = mapping->bytes().data() + part.offset;
    for (size_t i = 0; i < count; ++i) {
      float scale;
      std::memcpy(&scale, values + count + i / group * sizeof scale, sizeof scale);
      to.data<float>()[i] = scale * static_cast<float>(static_cast<int8_t>(values[i]));
    }
  });
  return to;
}

Metadata make_metadata(const Header& h, const std::filesystem::path& path) {
  Metadata metadata(path.string());
  const auto u32 = [](uint64_t value) { return MetaValue(static_cast<uint32_t>(value)); };
  metadata.add("general.architecture", std::string("llama"));
  metadata.add("general.name", path.stem().string());
  metadata.add("llama.context_length", u32(h.context));
  metadata.add("llama.embedding_length", u32(h.dim));
  metadata.add("llama.feed_forward_length", u32(h.hidden));
  metadata.add("llama.block_count", u32(h.layers));
  metadata.add("llama.attention.head_count", u32(h.heads));
  metadata.add("llama.attention.head_count_kv", u32(h.kv_heads));
  metadata.add("llama.attention.layer_norm_rms_epsilon", 1e-5f);  // fixed in llama2.c
  metadata.add("llama.rope.dimension_count", u32(h.head_dim()));
  metadata.add("llama.rope.freq_base", 10000.0f);  // fixed in llama2.c
  metadata.add("llama.vocab_size", u32(h.vocab));
  return metadata;
}

// The tokenizer file for a model at `model`: asked for by name, or one of the usual names beside it. Empty if
// none.
std::filesystem::path find_tokenizer(const std::filesystem::path& model, uint64_t vocab,
                                     const OpenModelOptions& options) {
  if (!options.tokenizer_path.empty()) return options.tokenizer_path;
  for (const std::string& name : {fmt::format("tok{}.bin", vocab), std::string("tokenizer.bin")}) {
    std::filesystem::path path = model.parent_path() / name;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) return path;
  }
  return {};
}

}  // namespace

std::string llama2c_why_not(const ModelSource& source) {
  if (source.folder()) return "is a folder";
  const uint64_t file_bytes = source.bytes();
  const Parsed parsed = parse_header(source.head);
  // With the magic it is ours, sound or not: open() then says what is wrong.
  if (parsed.header.bytes == kHeaderBytesV1) return {};
  if (!parsed.objection.empty()) return parsed.objection;
  const Layout layout(parsed.header);
  if (layout.file_bytes() != file_bytes)
    return fmt::format("as version 0 its header asks for {} bytes, the file has {}", layout.file_bytes(),
                       file_bytes);
  return {};
}

ModelFile llama2c_open(const ModelSource& source, const OpenModelOptions& options) {
  const std::shared_ptr<MappedFile>& mapping = source.mapping;
  const std::filesystem::path& path = mapping->path();
  const Parsed parsed = parse_header(copy_head(mapping->bytes(), kHeaderBytesV1));
  if (!parsed.objection.empty())
    fail(Errc::kCorrupt, "{}: llama2.c header: {}", path.string(), parsed.objection);
  const Header& h = parsed.header;
  const Layout layout(h);
  if (layout.file_bytes() != mapping->bytes().size())
    fail(Errc::kCorrupt, "{}: llama2.c version {}: expected {} bytes, found {}", path.string(), h.version,
         layout.file_bytes(), mapping->bytes().size());
  std::vector<NamedTensor> tensors;
  tensors.reserve(layout.parts().size());
  for (const Layout::Part& part : layout.parts()) {
    const auto& [name, shape, offset, grouped] = part;
    if (grouped) {
      NamedTensor tensor(name, DType::kF32, shape,
                         [mapping, part, group = h.group] { return ungrouped(mapping, part, group); });
      tensor.offset = offset;
      tensors.push_back(std::move(tensor));
      continue;
    }
    const auto bytes = static_cast<size_t>(shape.count()) * sizeof(float);
    const auto from = static_cast<size_t>(offset);
    tensors.emplace_back(name, Tensor(Buffer::mapped(mapping, from, bytes), DType::kF32, shape), offset);
  }
  Metadata metadata = make_metadata(h, path);
  const std::filesystem::path tokenizer = find_tokenizer(path, h.vocab, options);
  if (!tokenizer.empty()) llama2c_add_tokenizer(tokenizer, static_cast<uint32_t>(h.vocab), metadata);
  return ModelFile(fmt::format("llama2.c v{}", h.version), path, std::move(metadata), std::move(tensors),
                   {mapping});
}

}  // namespace butterfly::model
