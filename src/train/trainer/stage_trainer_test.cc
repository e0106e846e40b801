// Stages of a pipeline, one behind the other in one process: the weights of one trainer, bit for bit.
#include "train/trainer/stage_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>

#include "base/error.h"
#include "train/networks/transformer.h"

namespace butterfly::train {
namespace {

constexpr size_t kLength = 12, kItems = 2, kLayers = 4, kVocabulary = 40;

struct Case {
  std::string name;
  std::string architecture = "llama";
  std::vector<size_t> ends;  // pieces: the embedding, four blocks, the head
  bool tied = false;
  float dropout = 0;
  bool recompute = false;
  OptimizerOptions optimizer = {};
  size_t micro_batches = 6;
};
void PrintTo(const Case& it, std::ostream* out) { *out << it.name; }

model::ModelFile fresh(const Case& it) {
  model::RandomModelOptions sizes;
  sizes.architecture = it.architecture;
  sizes.vocabulary_size = kVocabulary;
  sizes.context_length = kLength;
  sizes.embedding_length = 32;
  sizes.block_count = kLayers;
  sizes.feed_forward_length = 48;
  sizes.head_count = 2;
  sizes.head_count_kv = it.architecture == "gpt2" ? 2 : 1;
  sizes.tied = it.tied;
  return untrained_model(sizes, {}, 0.3f);
}

TrainerOptions options_of(const Case& it) {
  TrainerOptions options;
  options.optimizer = it.optimizer;
  options.schedule = {.lr = 1e-2, .total_steps = 10};
  options.clip_norm = 0.5;
  options.threads_per_worker = 1;
  options.recompute = it.recompute;
  return options;
}

struct Step {
  std::vector<std::vector<int32_t>> tokens, targets;
  std::vector<MicroBatch> batches() const {
    std::vector<MicroBatch> parts;
    for (size_t i = 0; i < tokens.size(); ++i) parts.push_back({tokens[i], {}, targets[i]});
    return parts;
  }
};

Step step_of(size_t number, size_t micro_batches) {
  Step step;
  for (size_t m = 0; m < micro_batches; ++m) {
    std::vector<int32_t> tokens, targets;
    for (size_t i = 0; i < kItems * kLength; ++i) {
      tokens.push_back(static_cast<int32_t>((i * 7 + m * 13 + number * 29 + i * i) % kVocabulary));
      targets.push_back(i % 5 == 4 ? -1 : static_cast<int32_t>((tokens.back() * 3 + 1) % kVocabulary));
    }
    step.tokens.push_back(tokens);
    step.targets.push_back(targets);
  }
  return step;
}

// Stages that hand rows on by function calls. Forward passes go ahead of backward ones by `ahead`.
class Pipeline {
 public:
  Pipeline(const Case& it, const std::vector<std::string>& names, size_t ahead) : ahead_(ahead) {
    size_t begin = 0;
    for (const size_t end : it.ends) {
      const bool first = begin == 0, last = end == kLayers + 2;
      networks_.push_back(std::make_unique<Transformer>(
          fresh(it), TransformerOptions{.length = kLength,
                                        .dropout = it.dropout,
                                        .range = model::range_of_pieces(begin, end, kLayers)}));
      const bool apart = it.tied && it.ends.size() > 1;
      stages_.push_back(
          std::make_unique<StageTrainer>(*networks_.back(), StageOptions{.trainer = options_of(it),
                                                                         .names = names,
                                                                         .items = kItems,
                                                                         .in_flight = last ? 1 : ahead,
                                                                         .shares_table = last && apart,
                                                                         .table_elsewhere = first && apart}));
      begin = end;
    }
    apart_ = it.tied && it.ends.size() > 1;
  }

  double step(uint64_t number, std::span<const MicroBatch> batches, const Trainer& norms) {
    const StepShape shape = step_shape(batches);
    for (auto& stage : stages_) stage->begin(number, shape);
    std::vector<LeafReport> reports;
    std::deque<size_t> waiting;
    for (size_t i = 0; i < batches.size(); ++i) {
      forward(i, batches[i], reports);
      waiting.push_back(i);
      if (waiting.size() == ahead_) backward(waiting, batches);
    }
    while (!waiting.empty()) backward(waiting, batches);
    std::map<size_t, float> by_place;  // squares in the order of the whole network
    std::vector<std::pair<size_t, std::vector<float>>> parts;
    for (auto& stage : stages_) {
      const std::vector<float> squares = stage->reduce();
      size_t at = 0;
      for (const NormBlock& block : stage->layout().blocks())
        by_place[stage->layout().number(block.parameter) * 1000 + block.first] = squares[at++];
    }
    std::vector<float> squares;
    for (const auto& [place, value] : by_place) squares.push_back(value);
    const double norm = norms.norm(squares);
    for (auto& stage : stages_) stage->update(norm);
    if (apart_) {
      const Tensor& from = networks_.back()->weights().at("token_embd.weight");
      const Tensor& to = networks_.front()->weights().at("token_embd.weight");
      std::memcpy(to.raw(), from.raw(), from.bytes());
    }
    return step_report(shape, reports).loss;
  }

  std::vector<std::byte> weight(const std::string& name) const {
    for (size_t i = networks_.size(); i-- > 0;) {
      const auto found = networks_[i]->weights().find(name);
      if (found != networks_[i]->weights().end())
        return {found->second.raw(), found->second.raw() + found->second.bytes()};
    }
    return {};
  }

 private:
  void forward(size_t i, const MicroBatch& batch, std::vector<LeafReport>& reports) {
    std::vector<float> rows;
    for (auto& stage : stages_) {
      const auto out = stage->forward(i, batch, rows);
      rows.assign(out.begin(), out.end());
      if (!stage->last()) continue;
      reports.push_back(stage->report(i));
      const auto gradient = stage->backward(i, {});
      back_[i].assign(gradient.begin(), gradient.end());
    }
  }
  void backward(std::deque<size_t>& waiting, std::span<const MicroBatch> batches) {
    const size_t i = waiting.front();
    waiting.pop_front();
    std::vector<float> gradient = back_[i];
    for (size_t s = stages_.size() - 1; s-- > 0;) {
      const auto out = stages_[s]->backward(i, gradient);
      gradient.assign(out.begin(), out.end());
    }
    if (apart_) stages_.back()->add_rows(i, batches[i].tokens, gradient);
  }

  const size_t ahead_;
  bool apart_ = false;
  std::vector<std::unique_ptr<Transformer>> networks_;
  std::vector<std::unique_ptr<StageTrainer>> stages_;
  std::map<size_t, std::vector<float>> back_;
};

class StageTrainerTest : public ::testing::TestWithParam<Case> {};

TEST_P(StageTrainerTest, WeightsOfOneTrainer) {
  const Case& it = GetParam();
  Transformer whole(fresh(it), {.length = kLength, .dropout = it.dropout});
  Trainer trainer(whole, options_of(it));
  std::vector<std::string> names;
  for (size_t i = 0; i < trainer.layout().size(); ++i) names.push_back(trainer.layout().parameter(i).name);
  for (const size_t ahead : {size_t{1}, size_t{4}}) {
    Transformer again(fresh(it), {.length = kLength, .dropout = it.dropout});
    Trainer alone(again, options_of(it));
    Pipeline pipeline(it, names, ahead);
    for (size_t step = 0; step < 3; ++step) {
      const Step data = step_of(step, it.micro_batches);
      const double loss = alone.step(data.batches()).loss;
      EXPECT_EQ(pipeline.step(step, data.batches(), trainer), loss) << "step " << step;
    }
    for (const auto& [name, tensor] : again.weights())
      EXPECT_EQ(std::memcmp(pipeline.weight(name).data(), tensor.raw(), tensor.bytes()), 0)
          << name << ", " << ahead << " on their way";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cuts, StageTrainerTest,
    ::testing::Values(
        Case{.name = "one", .ends = {6}}, Case{.name = "two", .ends = {3, 6}},
        Case{.name = "embedding_and_head_alone", .ends = {1, 5, 6}},
        Case{.name = "dropout", .ends = {2, 4, 6}, .dropout = 0.2f},
        Case{.name = "tied", .ends = {2, 4, 6}, .tied = true, .dropout = 0.1f},
        Case{.name = "tied_in_one", .ends = {6}, .tied = true},
        Case{.name = "tied_ends_alone", .ends = {1, 5, 6}, .tied = true},
        Case{.name = "recomputed", .ends = {3, 6}, .dropout = 0.1f, .recompute = true},
        Case{.name = "bf16_moments",
             .ends = {2, 6},
             .tied = true,
             .optimizer = {.weight_decay = 0.1, .bf16_moments = true}},
        Case{.name = "gpt2", .architecture = "gpt2", .ends = {2, 4, 6}, .tied = true, .dropout = 0.1f}),
    [](const auto& test) { return test.param.name; });

TEST(StageTrainer, NamesThatAreNotThere) {
  const std::vector<std::string> all = {"a", "b", "b", "c"};
  EXPECT_THAT(numbers_among(all, std::vector<std::string>{"b", "b", "a"}), ::testing::ElementsAre(1, 2, 0));
  EXPECT_THROW(numbers_among(all, std::vector<std::string>{"a", "a"}), Error);
  EXPECT_THROW(numbers_among(all, std::vector<std::string>{"d"}), Error);
}

}  // namespace
}  // namespace butterfly::train
