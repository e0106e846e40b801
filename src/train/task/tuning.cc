#include "train/task/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "model/arch/model_config.h"
#include "model/formats/model_file.h"
#include "train/data/documents.h"
#include "train/task/text_data.h"

namespace butterfly::train {
namespace {

constexpr size_t kLongest = 2048;      // tokens of a window, unless asked for
constexpr size_t kShortest = 256;      // so that little of a window stays empty
constexpr uint64_t kTogether = 1024;   // tokens of a micro-batch: enough for the products, little memory
constexpr uint64_t kStepsWanted = 16;  // of an epoch, before batches become larger
constexpr uint64_t kManyWindows = 2000;

}  // namespace

DataFacts survey_data(const TrainConfig& config) {
  const TextTools tools(config);
  DataFacts facts;
  std::vector<size_t> lengths;
  for (const std::string& path : config.datasets) {
    const bool pairs = config.rl == "dpo";
    const auto store =
        open_tokens(path, *tools.tokenizer, *tools.chat, document_options(config, tools), pairs);
    for (size_t i = 0; i < store->size(); ++i) lengths.push_back((*store)[i].size());
    facts.tokens += store->token_count();
    if (pairs) facts.pairs += store->size() / 2;
  }
  facts.documents = lengths.size();
  if (lengths.empty()) return facts;
  std::sort(lengths.begin(), lengths.end());
  facts.longest = lengths.back();
  facts.usual = lengths[(lengths.size() - 1) * 19 / 20];
  return facts;
}

Tuning choose_tuning(TrainConfig config, const std::set<std::string>& given, const DataFacts& facts,
                     size_t context, size_t width) {
  Tuning tuning{.config = std::move(config), .words = {}};
  TrainConfig& c = tuning.config;
  const auto choose = [&](const char* key, auto& field, auto value, const std::string& why) {
    if (given.contains(key)) return;
    field = static_cast<std::decay_t<decltype(field)>>(value);
    tuning.words.push_back(fmt::format("{} {}{}{}", key, field, why.empty() ? "" : ": ", why));
  };
  choose("adapter", c.adapter, "lora", "the model stays as it is");
  const size_t most = std::min(context, kLongest);
  choose("sequence_len", c.sequence_len,
         std::clamp<size_t>((facts.usual + 63) / 64 * 64, std::min(kShortest, most), most),
         fmt::format("19 of 20 texts have at most {} tokens, the longest {}; short ones share a window",
                     facts.usual, facts.longest));
  const uint64_t windows =
      std::max<uint64_t>(1, facts.pairs > 0 ? facts.pairs : facts.tokens * 11 / 10 / c.sequence_len);
  choose("micro_batch_size", c.micro_batch_size,
         std::clamp<uint64_t>(std::min(kTogether / c.sequence_len, windows), 1, 16), "");
  if (!c.test_datasets.empty()) {
  } else if (windows >= 20) {
    choose("val_set_size", c.val_set_size, 0.05, "a twentieth of the texts only checks what was learned");
  }
  choose("gradient_accumulation_steps", c.gradient_accumulation_steps,
         std::clamp<uint64_t>(windows / (kStepsWanted * c.micro_batch_size), 1, 8), "");
  if (c.max_steps == 0)
    choose("num_epochs", c.num_epochs, windows < kManyWindows ? 3 : 1,
           fmt::format("about {} windows of text", windows));
  const uint64_t per_step = c.micro_batch_size * c.gradient_accumulation_steps;
  const uint64_t steps =
      c.max_steps > 0
          ? c.max_steps
          : static_cast<uint64_t>(std::ceil(
                c.num_epochs * std::ceil(static_cast<double>(windows) / static_cast<double>(per_step))));
  // Narrow models take larger steps: 2e-4 at 4096 columns.
  choose("learning_rate", c.learning_rate,
         std::clamp(2e-4 * std::sqrt(4096.0 / static_cast<double>(std::max<size_t>(1, width))), 1e-4, 2e-3),
         "");
  if (!given.contains("warmup_steps")) choose("warmup_ratio", c.warmup_ratio, 0.05, "");
  const bool checks = c.val_set_size > 0 || !c.test_datasets.empty();
  if (checks) {
    choose("eval_steps", c.eval_steps, std::max<uint64_t>(1, steps / 10), "");
    choose("load_best_model_at_end", c.load_best_model_at_end, true, "");
  }
  choose("save_steps", c.save_steps, std::max<uint64_t>(1, steps / 10), "");
  return tuning;
}

Tuning choose_tuning(TrainConfig config, const std::set<std::string>& given) {
  const model::ModelConfig model = model::read_config(model::open_model(config.base_model));
  const DataFacts facts = survey_data(config);
  return choose_tuning(std::move(config), given, facts, model.context, model.dim);
}

}  // namespace butterfly::train
