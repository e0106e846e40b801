// Adapters learn beside every architecture's frozen weights: on attention and what is in its place,
// feed-forward parts, experts, routers and the output layer. Losses are those of inference, bit for bit, also
// of several documents in a window; gradients are the slopes of that loss; what is written is what learned.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "graph/executor.h"
#include "model/adapter/adapter_write.h"
#include "model/adapter/merge.h"
#include "model/formats/gguf_writer.h"
#include "runtime/testing/models.h"
#include "train/data/batch.h"
#include "train/networks/lora_transformer.h"
#include "train/trainer/trainer.h"

namespace butterfly::runtime {
namespace {

using train::LoraTransformer;
using train::MicroBatch;

// Two windows of two documents each.
constexpr size_t kLength = 12, kSecond = 7, kItems = 2, kRows = kItems * kLength;
constexpr int32_t kVocabulary = 272;

model::RandomModelOptions sizes_of(const std::string& name, DType dtype) {
  model::RandomModelOptions sizes;
  sizes.architecture = name;
  sizes.vocabulary_size = kVocabulary;
  sizes.context_length = 64;
  sizes.embedding_length = 128;
  sizes.block_count = model::random_architecture(name).layers;
  sizes.feed_forward_length = 64;
  sizes.head_count = 4;
  sizes.head_count_kv = name == "gpt2" ? 4 : 2;
  sizes.expert_count = 4;
  sizes.sliding_window = 5;
  sizes.matrix_type = sizes.vocabulary_type = dtype;
  return sizes;
}

std::vector<int32_t> window_tokens() {
  std::vector<int32_t> all;
  for (size_t i = 0; i < kRows; ++i) all.push_back(static_cast<int32_t>(random_u64(5, 1, i) % 64));
  return all;
}

std::vector<int32_t> window_targets() {
  std::vector<int32_t> all;
  for (size_t i = 0; i < kRows; ++i)
    all.push_back(i % 9 == 4 ? graph::kNoTarget : static_cast<int32_t>(random_u64(5, 2, i) % 64));
  return all;
}

struct Batch {
  std::vector<int32_t> tokens = window_tokens(), targets = window_targets();
  Batch() {
    for (size_t i = kSecond; i < kRows; i += kLength) tokens[i] = train::document_start(tokens[i]);
  }
  MicroBatch view() const { return {.tokens = tokens, .pixels = {}, .targets = targets}; }
};

class AdapterTraining : public ::testing::TestWithParam<std::string> {
 protected:
  model::ModelFile base(DType dtype) {
    const auto path = dir_ / (std::string(dtype_name(dtype)) + ".gguf");
    if (!std::filesystem::exists(path)) model::write_random_model(path, sizes_of(GetParam(), dtype));
    return model::open_model(path);
  }
  static std::unique_ptr<LoraTransformer> network(const model::ModelFile& file, float dropout = 0) {
    return std::make_unique<LoraTransformer>(file, testing::full_adapter(file),
                                             train::TransformerOptions{.length = kLength}, dropout);
  }
  butterfly::testing::TempDir dir_;
};

int32_t position_of(size_t row) {
  const size_t at = row % kLength;
  return static_cast<int32_t>(at < kSecond ? at : at - kSecond);
}

// Logits of the windows' rows as a run with a cache computes them, each document a text of its own. `adapter`
// may be empty.
std::vector<float> logits_of(const std::filesystem::path& base, const std::filesystem::path& adapter) {
  ThreadPool pool(2);
  LoadOptions options;
  options.with_tokenizer = false;
  if (!adapter.empty()) options.adapters = {{adapter, 1}};
  const auto model = load_model(base, pool, options);
  CachedLayers layers(*model, pool,
                      {.positions = 256, .sequences = 2 * kItems, .kv_type = DType::kF32, .rows_max = 64});
  const std::vector<int32_t> all = window_tokens();
  std::vector<BatchRow> rows;
  for (size_t i = 0; i < kRows; ++i) {
    const size_t text = i / kLength * 2 + (i % kLength >= kSecond ? 1 : 0);
    rows.push_back({all[i], static_cast<uint32_t>(text), static_cast<uint32_t>(position_of(i)), true});
  }
  const auto logits = layers.run(rows);
  return {logits.begin(), logits.end()};
}

// Fills the inputs of a graph that has them, and returns the rows' losses.
std::vector<float> run_losses(graph::Graph g, const graph::Loss& loss, graph::ValueId first_input,
                              std::span<const std::byte> first, graph::ValueId positions,
                              graph::ValueId targets_input, graph::ValueId factor) {
  g.mark_output(loss.rows);
  graph::Arena arena;
  ThreadPool pool(2);
  graph::Executor run(std::move(g), arena, pool);
  std::memcpy(run.input(first_input), first.data(), first.size());
  if (positions.valid())
    for (size_t i = 0; i < kRows; ++i) reinterpret_cast<int32_t*>(run.input(positions))[i] = position_of(i);
  const std::vector<int32_t> wanted = window_targets();
  std::memcpy(run.input(targets_input), wanted.data(), kRows * sizeof(int32_t));
  *reinterpret_cast<float*>(run.input(factor)) = 1;
  run.run(nullptr);
  return {run.output(loss.rows), run.output(loss.rows) + kRows};
}

std::vector<float> losses_of_logits(const std::vector<float>& logits) {
  graph::Graph g;
  const auto x = g.input("x", {graph::Elem::kF32, {kRows, kVocabulary}});
  const auto wanted = g.input("targets", {graph::Elem::kI32, {kRows}});
  const auto factor = g.input("factor", {graph::Elem::kF32, {1}});
  const graph::Loss loss = graph::cross_entropy(g, x, wanted, factor, "loss");
  return run_losses(std::move(g), loss, x, std::as_bytes(std::span(logits)), {}, wanted, factor);
}

std::vector<float> losses_in_training(const LoraTransformer& network) {
  graph::Graph g;
  const train::BuiltNetwork built = network.build(g, kItems, true);
  const std::vector<int32_t> all = window_tokens();
  return run_losses(std::move(g), built.loss, built.tokens, std::as_bytes(std::span(all)), built.positions,
                    built.targets, built.factor);
}

TEST_P(AdapterTraining, LossesAreThoseOfInference) {
  for (const DType dtype : {DType::kF32, DType::kQ8_0}) {
    const model::ModelFile file = base(dtype);
    const auto net = network(file);
    model::write_gguf_adapter(dir_ / "adapter.gguf", net->adapter(), file);
    const auto logits = logits_of(file.path(), dir_ / "adapter.gguf");
    EXPECT_EQ(losses_in_training(*net), losses_of_logits(logits)) << dtype_name(dtype);
    double all = 0;
    for (const float logit : logits) all += std::abs(logit);
    EXPECT_GT(all, 1);
    EXPECT_TRUE(std::isfinite(all));
  }
}

// The loss of the windows, and which experts rows go to: choosing has no slope.
class LossAt {
 public:
  explicit LossAt(const LoraTransformer& network) : pool_(2) {
    graph::Graph g;
    built_ = network.build(g, kItems, false);
    for (const graph::Node& node : g.nodes())
      if (node.op->name == std::string_view("moe_route")) orders_.push_back(node.outputs[2]);
    for (const graph::ValueId order : orders_) g.mark_output(order);
    run_ = std::make_unique<graph::Executor>(std::move(g), arena_, pool_);
    for (const int32_t target : targets_) count_ += target >= 0 ? 1 : 0;
  }
  double loss() {
    std::memcpy(run_->input(built_.tokens), tokens_.data(), kRows * sizeof(int32_t));
    std::memcpy(run_->input(built_.targets), targets_.data(), kRows * sizeof(int32_t));
    for (size_t i = 0; i < kRows; ++i)
      reinterpret_cast<int32_t*>(run_->input(built_.positions))[i] = position_of(i);
    *reinterpret_cast<float*>(run_->input(built_.factor)) = 1;
    run_->run(nullptr);
    double sum = 0;
    for (size_t i = 0; i < kRows; ++i) sum += run_->output(built_.loss.rows)[i];
    return sum / count_;
  }
  std::vector<int32_t> orders() const {
    std::vector<int32_t> all;
    for (const graph::ValueId order : orders_) {
      const auto* from = reinterpret_cast<const int32_t*>(run_->output(order));
      all.insert(all.end(), from, from + run_->graph().type(order).rows());
    }
    return all;
  }

 private:
  const std::vector<int32_t> tokens_ = window_tokens(), targets_ = window_targets();
  graph::Arena arena_;
  ThreadPool pool_;
  train::BuiltNetwork built_;
  std::unique_ptr<graph::Executor> run_;
  std::vector<graph::ValueId> orders_;
  double count_ = 0;
};

// With F32 weights nothing is rounded on the way, so that differences of the loss are its slopes. Every value
// of every matrix moves: along its gradient, and at random; less far where rows would go to other experts.
TEST_P(AdapterTraining, GradientsAreTheSlopesOfTheLoss) {
  const auto net = network(base(DType::kF32));
  const Batch batch;
  const MicroBatch view = batch.view();
  train::Trainer trainer(*net, {.threads_per_worker = 2});
  const train::LeafSums sums = trainer.leaves(train::step_shape({&view, 1}), 0, {&view, 1});
  const train::ParameterLayout& layout = trainer.layout();
  LossAt at(*net);
  EXPECT_NEAR(at.loss(), trainer.evaluate({&view, 1}).loss, 1e-5);
  const std::vector<int32_t> orders = at.orders();
  std::map<std::string, size_t> found;
  size_t unsteady = 0;
  for (size_t p = 0; p < layout.size(); ++p) {
    auto* values = layout.parameter(p).value.data<float>();
    const size_t count = layout.count(p);
    const float* gradient = sums.subtrees[0].sum.values + layout.offset(p);
    found[layout.parameter(p).name] += count;
    const Tensor& whole = net->weights().at(layout.parameter(p).name);
    EXPECT_TRUE(values >= whole.data<float>() && values + count <= whole.data<float>() + whole.count())
        << layout.parameter(p).name << " learns in a copy";
    double norm = 0;
    for (size_t i = 0; i < count; ++i) norm += double{gradient[i]} * gradient[i];
    norm = std::sqrt(norm);
    std::vector<double> along(count);
    double expected = 0;
    for (size_t i = 0; i < count; ++i) {
      along[i] = gradient[i] / std::max(norm, 1e-9) +
                 random_normal(11, p, i) / std::sqrt(static_cast<double>(count));
      expected += along[i] * gradient[i];
    }
    const std::vector<float> start(values, values + count);
    bool steady = false;
    const double first = 0.03 / (1 + norm);  // where it is steep it is bent, too
    for (double step = first; !steady && step > first / 50; step /= 2) {
      steady = true;
      const auto loss_at = [&](double by) {
        for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(start[i] + by * along[i]);
        const double loss = at.loss();
        steady = steady && at.orders() == orders;
        return loss;
      };
      const double slope =
          (8 * (loss_at(step) - loss_at(-step)) - (loss_at(2 * step) - loss_at(-2 * step))) / (12 * step);
      std::copy(start.begin(), start.end(), values);
      if (steady)
        EXPECT_NEAR(expected, slope, 2e-3 * std::abs(slope) + 1e-6 / step) << layout.parameter(p).name;
    }
    unsteady += steady ? 0 : 1;
  }
  EXPECT_LE(unsteady, layout.size() / 20) << "of " << layout.size();
  // Layers that read parts of a matrix have parts of B; together they are all of it.
  for (const auto& [name, tensor] : net->weights())
    EXPECT_EQ(found[name], static_cast<size_t>(tensor.count())) << name;
}

TEST_P(AdapterTraining, LearnsAndIsWrittenAsItLearned) {
  const model::ModelFile file = base(DType::kQ8_0);
  const auto net = network(file);
  const Batch batch;
  const MicroBatch view = batch.view();
  train::Trainer trainer(*net,
                         {.optimizer = {.name = "adamw"}, .schedule = {.lr = 2e-3}, .threads_per_worker = 1});
  const double before = trainer.step({&view, 1}).loss;
  for (int i = 0; i < 6; ++i) trainer.step({&view, 1});
  EXPECT_LT(trainer.evaluate({&view, 1}).loss, before - 0.02);
  const auto losses = losses_in_training(*net);
  model::write_gguf_adapter(dir_ / "learned.gguf", net->adapter(), file);
  EXPECT_EQ(losses, losses_of_logits(logits_of(file.path(), dir_ / "learned.gguf")));
  // PEFT's form, where Hugging Face's model has a module for every matrix.
  if (!model::why_no_peft(net->adapter(), file).empty()) return;
  model::write_peft_adapter(dir_ / "peft", net->adapter(), file, {});
  EXPECT_EQ(losses, losses_of_logits(logits_of(file.path(), dir_ / "peft")));
}

TEST_P(AdapterTraining, MergedIsTheSameModel) {
  const model::ModelFile file = base(DType::kF32);
  // A head without a matrix of its own cannot be merged apart from the embedding.
  std::vector<std::string> without;
  if (!file.has("output.weight")) without.push_back("output");
  const model::Adapter adapter = testing::full_adapter(file, without);
  model::write_gguf_adapter(dir_ / "adapter.gguf", adapter, file);
  ThreadPool pool(2);
  const model::ModelFile merged = model::merged_model(file, {adapter}, pool);
  model::GgufWriter writer(merged.metadata());
  for (const model::NamedTensor& tensor : merged.tensors())
    writer.add_tensor(tensor.name, merged.tensor(tensor.name));
  writer.write(dir_ / "merged.gguf");
  const auto apart = logits_of(file.path(), dir_ / "adapter.gguf"), one = logits_of(dir_ / "merged.gguf", {}),
             plain = logits_of(file.path(), {});
  double worst = 0, changed = 0;
  for (size_t i = 0; i < apart.size(); ++i) {
    worst = std::max(worst, std::abs(double{apart[i]} - one[i]));
    changed = std::max(changed, std::abs(double{apart[i]} - plain[i]));
  }
  EXPECT_LT(worst, 1e-3);
  EXPECT_GT(changed, 0.1);
}

TEST_P(AdapterTraining, OneResultForAnyNumberOfThreads) {
  const model::ModelFile file = base(DType::kQ8_0);
  const Batch batch;
  const MicroBatch whole = batch.view();
  const std::vector<MicroBatch> halves = {
      {.tokens = whole.tokens.first(kLength), .pixels = {}, .targets = whole.targets.first(kLength)},
      {.tokens = whole.tokens.subspan(kLength), .pixels = {}, .targets = whole.targets.subspan(kLength)}};
  std::vector<std::vector<float>> results;
  for (const auto& [workers, threads] : {std::pair<size_t, size_t>{1, 1}, {1, 3}, {2, 2}}) {
    const auto net = network(file, 0.1f);
    train::Trainer trainer(*net, {.optimizer = {.name = "adamw"},
                                  .schedule = {.lr = 1e-2},
                                  .clip_norm = 1,
                                  .workers = workers,
                                  .threads_per_worker = threads,
                                  .recompute = threads == 3});
    for (int step = 0; step < 2; ++step) trainer.step(halves);
    std::vector<float>& values = results.emplace_back();
    for (const auto& [name, tensor] : net->weights())
      values.insert(values.end(), tensor.data<float>(), tensor.data<float>() + tensor.count());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

// Of one matrix for many experts, of many for one matrix, of too few experts.
TEST(AdapterShapes, ThatDoNotFitAreRefusedInWords) {
  butterfly::testing::TempDir dir;
  model::write_random_model(dir / "base.gguf", sizes_of("qwen3moe", DType::kF32));
  const model::ModelFile file = model::open_model(dir / "base.gguf");
  const auto refused = [&](const std::string& target, const Shape& a, const Shape& b) -> std::string {
    model::Adapter adapter{.path = "adapter", .pairs = {}};
    adapter.pairs.push_back({target, Tensor::zeros(DType::kF32, a), Tensor::zeros(DType::kF32, b)});
    model::write_gguf_adapter(dir / "adapter.gguf", adapter, file);
    try {
      logits_of(file.path(), dir / "adapter.gguf");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string experts = "blk.0.ffn_up_exps.weight", query = "blk.0.attn_q.weight";
  EXPECT_EQ(refused(experts, {4, 2, 128}, {4, 64, 2}), "");
  for (const std::string& text :
       {refused(experts, {2, 128}, {64, 2}), refused(experts, {3, 2, 128}, {3, 64, 2}),
        refused(query, {4, 2, 128}, {4, 128, 2}), refused("token_embd.weight", {272, 2, 1}, {272, 128, 2})})
    EXPECT_NE(text.find("changes a matrix of shape ["), std::string::npos) << text;
  for (const std::string& text :
       {refused(experts, {4, 2, 128}, {3, 64, 2}), refused(experts, {4, 2, 128}, {64, 2})})
    EXPECT_NE(text.find("ranks differ"), std::string::npos) << text;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const model::RandomArchitecture& row : model::random_architectures()) all.emplace_back(row.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Every, AdapterTraining, ::testing::ValuesIn(names()), [](const auto& name) {
  std::string letters = name.param;
  std::replace(letters.begin(), letters.end(), '-', '_');
  return letters;
});

}  // namespace
}  // namespace butterfly::runtime
