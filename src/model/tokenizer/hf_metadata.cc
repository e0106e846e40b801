#include "model/tokenizer/hf_metadata.h"

#include "base/error.h"

namespace butterfly::model {
namespace {

// No published model pads by more; a config.json is input too.
constexpr uint64_t kPaddingMax = 1 << 20;

void pad(HfTokenizer& t, const Metadata& metadata) {
  const std::string key = metadata.string_or("general.architecture", "llama") + ".vocab_size";
  const uint64_t size = metadata.u64_or(key, 0);
  if (size <= t.texts.size()) return;
  if (size - t.texts.size() > kPaddingMax)
    fail(Errc::kCorrupt, "{}: {} is {}, but the tokenizer has {} tokens", t.source, key, size,
         t.texts.size());
  t.resize(static_cast<size_t>(size));
}

}  // namespace

void add_hf_metadata(HfTokenizer t, Metadata& metadata) {
  pad(t, metadata);
  metadata.add("tokenizer.ggml.model", t.model);
  if (!t.pre.empty()) metadata.add("tokenizer.ggml.pre", t.pre);
  const size_t count = t.texts.size();
  metadata.add("tokenizer.ggml.tokens", string_array(std::move(t.texts)));
  if (!t.scores.empty()) {
    t.scores.resize(count);
    metadata.add("tokenizer.ggml.scores", f32_array(std::move(t.scores)));
  }
  metadata.add("tokenizer.ggml.token_type", i32_array(std::move(t.types)));
  if (!t.merges.empty() || t.model == "gpt2")
    metadata.add("tokenizer.ggml.merges", string_array(std::move(t.merges)));

  const auto add_id = [&](const char* key, const std::optional<int32_t>& id) {
    if (id) metadata.add(key, static_cast<uint32_t>(*id));
  };
  add_id("tokenizer.ggml.bos_token_id", t.bos);
  add_id("tokenizer.ggml.eos_token_id", t.eos);
  add_id("tokenizer.ggml.unknown_token_id", t.unknown);
  add_id("tokenizer.ggml.padding_token_id", t.padding);
  if (t.model == "bert") add_id("tokenizer.ggml.cls_token_id", t.bos);
  add_id("tokenizer.ggml.seperator_token_id", t.separator);  // GGUF's spelling
  add_id("tokenizer.ggml.mask_token_id", t.mask);

  const auto add_flag = [&](const char* key, const std::optional<bool>& flag) {
    if (flag) metadata.add(key, *flag);
  };
  add_flag("tokenizer.ggml.add_bos_token", t.add_bos);
  add_flag("tokenizer.ggml.add_eos_token", t.add_eos);
  add_flag("tokenizer.ggml.add_space_prefix", t.space_prefix);
  add_flag("tokenizer.ggml.remove_extra_whitespaces", t.remove_extra_spaces);
  add_flag("tokenizer.ggml.normalizer.lowercase", t.lowercase);
  add_flag("tokenizer.ggml.normalizer.strip_accents", t.strip_accents);
  if (!t.charsmap.empty())
    metadata.add("tokenizer.ggml.precompiled_charsmap", MetaArray{MetaType::kU8, std::move(t.charsmap)});

  std::string rules;
  for (const std::string& rule : t.rules) rules += (rules.empty() ? "" : " ") + rule;
  if (!rules.empty()) metadata.add(std::string(kRulesKey), rules);
  if (!t.flags.empty()) {
    t.flags.resize(count);
    metadata.add(std::string(kFlagsKey), i32_array(std::move(t.flags)));
  }
}

}  // namespace butterfly::model
