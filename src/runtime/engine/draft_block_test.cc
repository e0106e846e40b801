// The block that predicts ahead, against its formula written out in plain loops (that of llama.cpp's graphs
// of qwen35), and against itself read in other pieces.
#include "runtime/engine/draft_block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using butterfly::testing::TempDir;
using Row = std::vector<double>;

constexpr size_t kDim = 64, kVocab = 320, kHeads = 4, kKvHeads = 2, kHead = 16, kRotated = 8, kLayers = 4;

// One block in doubles, a row at a time.
class Reference {
 public:
  explicit Reference(const model::ModelFile& file) : file_(file) {}

  struct Out {
    Row normed, logits;
  };
  // The pair of the next position: rows come in order of position.
  Out next(int32_t token, const Row& hidden) {
    Row x = rms(row_of("token_embd.weight", static_cast<size_t>(token)), block("nextn.enorm"));
    const Row h = rms(hidden, block("nextn.hnorm"));
    x.insert(x.end(), h.begin(), h.end());
    x = product("nextn.eh_proj", x);
    add(x, attention(rms(x, block("attn_norm"))));
    const Row f = rms(x, block("post_attention_norm"));
    Row gate = product("ffn_gate", f);
    const Row up = product("ffn_up", f);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    add(x, product("ffn_down", gate));
    Out out;
    out.normed = rms(x, block("nextn.shared_head_norm"));
    out.logits = times("output.weight", out.normed);
    return out;
  }

 private:
  static void add(Row& to, const Row& x) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += x[i];
  }
  std::string block(const char* name) const { return "blk.4." + std::string(name) + ".weight"; }
  Row row_of(const std::string& name, size_t row) const {
    const Tensor tensor = file_.tensor(name);
    const size_t cols = static_cast<size_t>(tensor.shape().back());
    const float* values = tensor.data<float>() + row * cols;
    return {values, values + cols};
  }
  Row times(const std::string& name, const Row& x) const {
    const Tensor tensor = file_.tensor(name);
    Row out(static_cast<size_t>(tensor.size(0)));
    for (size_t r = 0; r < out.size(); ++r)
      for (size_t c = 0; c < x.size(); ++c) out[r] += double{tensor.data<float>()[r * x.size() + c]} * x[c];
    return out;
  }
  Row product(const char* name, const Row& x) const { return times(block(name), x); }
  Row rms(const Row& x, const std::string& weight, size_t group = 0) const {
    const Row w = row_of(weight, 0);
    if (group == 0) group = x.size();
    Row out(x.size());
    for (size_t begin = 0; begin < x.size(); begin += group) {
      double sum = 0;
      for (size_t i = 0; i < group; ++i) sum += x[begin + i] * x[begin + i];
      const double scale = 1 / std::sqrt(sum / static_cast<double>(group) + 1e-5);
      for (size_t i = 0; i < group; ++i) out[begin + i] = x[begin + i] * scale * w[i];
    }
    return out;
  }
  // Values i and i + kRotated / 2 of each head turn together.
  void rotate(Row& x) const {
    for (size_t begin = 0; begin < x.size(); begin += kHead)
      for (size_t i = 0; i < kRotated / 2; ++i) {
        const double angle = static_cast<double>(keys_.size()) *
                             std::pow(10000.0, -2.0 * static_cast<double>(i) / double{kRotated});
        double &a = x[begin + i], &b = x[begin + i + kRotated / 2];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
      }
  }
  Row attention(const Row& x) {
    const Row both = product("attn_q", x);
    Row q, gate;
    for (size_t h = 0; h < kHeads; ++h) {  // a head's queries, then its gates
      const auto at = both.begin() + static_cast<ptrdiff_t>(2 * h * kHead);
      q.insert(q.end(), at, at + kHead);
      gate.insert(gate.end(), at + kHead, at + 2 * kHead);
    }
    q = rms(q, block("attn_q_norm"), kHead);
    Row k = rms(product("attn_k", x), block("attn_k_norm"), kHead);
    rotate(q);
    rotate(k);
    keys_.push_back(k);
    values_.push_back(product("attn_v", x));
    Row out(kHeads * kHead);
    for (size_t h = 0; h < kHeads; ++h) {
      const size_t kv = h / (kHeads / kKvHeads) * kHead;
      Row weights;
      double sum = 0;
      for (const Row& key : keys_) {
        double dot = 0;
        for (size_t i = 0; i < kHead; ++i) dot += q[h * kHead + i] * key[kv + i];
        weights.push_back(std::exp(dot / std::sqrt(double{kHead})));
        sum += weights.back();
      }
      for (size_t p = 0; p < keys_.size(); ++p)
        for (size_t i = 0; i < kHead; ++i) out[h * kHead + i] += weights[p] / sum * values_[p][kv + i];
    }
    for (size_t i = 0; i < out.size(); ++i) out[i] /= 1 + std::exp(-gate[i]);
    return product("attn_output", out);
  }

  const model::ModelFile& file_;
  std::vector<Row> keys_, values_;
};

struct DraftBlockTest : ::testing::Test {
  static constexpr uint32_t kSequences = 3;

  DraftBlockTest() {
    model::RandomModelOptions options = testing::small_options("qwen35", DType::kF32);
    options.embedding_length = kDim;
    options.head_count = kHeads;
    options.head_count_kv = kKvHeads;
    options.feed_forward_length = 96;
    options.block_count = kLayers;
    options.predicting_blocks = 1;
    model::write_random_model(dir / "made.gguf", options);
    loaded = std::make_unique<testing::Loaded>(dir / "made.gguf", 2, false);
    for (auto& ids : page_ids) {
      for (uint32_t p = 0; p < 4; ++p) ids.push_back(static_cast<uint32_t>(&ids - page_ids) * 4 + p);
      pages.push_back(ids);
    }
  }
  DraftBlock make() {
    return DraftBlock(*loaded->model->predictor, kDim, kVocab,
                      {.pages = 12, .sequences = kSequences, .kv_type = DType::kF32, .threads = 2});
  }
  // What layers would have made of position p.
  static std::vector<float> hidden(size_t p) {
    std::vector<float> row;
    for (size_t i = 0; i < kDim; ++i)
      row.push_back(static_cast<float>(random_u64(5, p, i) % 2001) / 1000.0f - 1);
    return row;
  }
  static int32_t token(size_t p) { return static_cast<int32_t>(random_u64(6, 1, p) % kVocab); }
  // Rows [begin, begin + count), the last `guesses` of them only guessed.
  void take(DraftBlock& block, uint32_t sequence, size_t begin, size_t count, size_t guesses = 0,
            bool wrong = false) {
    std::vector<StepRow> rows;
    std::vector<float> values;
    for (size_t p = begin; p < begin + count; ++p) {
      const bool guess = p + guesses >= begin + count;
      const size_t as = guess && wrong ? p + 1000 : p;
      rows.push_back({token(as), sequence, static_cast<uint32_t>(p), RowOutput::kNone, guess});
      const auto row = hidden(as);
      values.insert(values.end(), row.begin(), row.end());
    }
    block.take(loaded->pool, rows, values, pages);
  }
  std::vector<int32_t> draft(DraftBlock& block, uint32_t sequence, size_t position, size_t count) {
    const DraftAsk ask{sequence, static_cast<uint32_t>(position), token(position),
                       static_cast<uint32_t>(count)};
    return block.draft(loaded->pool, {&ask, 1}, pages)[0];
  }
  TempDir dir;
  std::unique_ptr<testing::Loaded> loaded;
  std::vector<uint32_t> page_ids[kSequences];
  std::vector<std::span<const uint32_t>> pages;
};

TEST_F(DraftBlockTest, IsTheFormula) {
  ASSERT_NE(loaded->model->predictor, nullptr);
  EXPECT_EQ(loaded->model->config.layers, kLayers);
  constexpr size_t kRows = 40;
  graph::Graph graph;
  const model::PredictorValues values = loaded->model->predictor->build(graph, kRows, kRows);
  graph::Arena arena;
  graph::Executor executor(std::move(graph), arena, loaded->pool);
  DraftBlock block = make();
  std::vector<graph::KvRow> rows;
  for (size_t p = 0; p < kRows; ++p) {
    const auto before = p == 0 ? std::vector<float>(kDim) : hidden(p - 1);
    std::memcpy(executor.input(values.hidden) + p * kDim * sizeof(float), before.data(),
                kDim * sizeof(float));
    reinterpret_cast<int32_t*>(executor.input(values.tokens))[p] = token(p);
    reinterpret_cast<int32_t*>(executor.input(values.positions))[p] = static_cast<int32_t>(p);
    reinterpret_cast<int32_t*>(executor.input(values.selected))[p] = static_cast<int32_t>(p);
    rows.push_back({0, static_cast<uint32_t>(p)});
  }
  model::PageTables tables;
  tables[0] = pages;
  const graph::KvStep kv = block.memory().step(tables, rows);
  executor.run(&kv);

  Reference reference(loaded->model->file);
  double worst = 0;
  for (size_t p = 0; p < kRows; ++p) {
    const auto before = p == 0 ? std::vector<float>(kDim) : hidden(p - 1);
    const auto want = reference.next(token(p), Row(before.begin(), before.end()));
    for (size_t i = 0; i < kDim; ++i)
      worst = std::max(worst, std::abs(want.normed[i] - executor.output(values.normed)[p * kDim + i]));
    for (size_t i = 0; i < kVocab; ++i)
      worst = std::max(worst, std::abs(want.logits[i] - executor.output(values.logits)[p * kVocab + i]));
  }
  EXPECT_LT(worst, 2e-4);
}

TEST_F(DraftBlockTest, DraftsAreTheLikeliestOneAfterTheOther) {
  DraftBlock block = make();
  take(block, 1, 0, 37);
  const std::vector<int32_t> drafted = draft(block, 1, 37, 4);

  Reference reference(loaded->model->file);
  Row before(kDim);
  std::vector<int32_t> want;
  for (size_t p = 0; p <= 37; ++p) {
    auto out = reference.next(token(p), before);
    const auto row = hidden(p);
    before.assign(row.begin(), row.end());
    if (p < 37) continue;
    for (;;) {
      want.push_back(static_cast<int32_t>(std::ranges::max_element(out.logits) - out.logits.begin()));
      if (want.size() == 4) break;
      out = reference.next(want.back(), out.normed);
    }
  }
  EXPECT_EQ(drafted, want);
}

// However the rows came, the cache and the drafts have the same bits.
TEST_F(DraftBlockTest, PiecesGuessesAndCompanyChangeNothing) {
  DraftBlock plain = make();
  take(plain, 0, 0, 61);
  const std::vector<int32_t> want = draft(plain, 0, 61, 3);
  ASSERT_EQ(want.size(), 3u);
  const auto page = [&](DraftBlock& block, uint32_t id) {
    std::vector<std::byte> bytes(block.memory().page_size(graph::PageKind::kFull));
    block.memory().read_page(graph::PageKind::kFull, id, bytes);
    return bytes;
  };

  DraftBlock pieces = make();
  take(pieces, 0, 0, 20);
  take(pieces, 2, 0, 9);  // another text
  EXPECT_EQ(draft(pieces, 0, 20, 2).size(), 2u);
  take(pieces, 0, 20, 3, 2);        // both guesses are right
  take(pieces, 0, 23, 4, 3, true);  // and all wrong
  EXPECT_EQ(draft(pieces, 0, 24, 5).size(), 5u);
  EXPECT_EQ(draft(pieces, 0, 24, 5).size(), 5u) << "asked again";
  take(pieces, 0, 24, 6, 5);  // of five guesses two are right, and nothing was asked
  take(pieces, 0, 27, 1);
  for (size_t p = 28; p < 60; ++p) take(pieces, 0, p, 1);
  take(pieces, 0, 60, 1);
  EXPECT_EQ(draft(pieces, 0, 61, 3), want);
  EXPECT_EQ(page(pieces, 0), page(plain, 0));
}

TEST_F(DraftBlockTest, WithoutARowInFrontThereIsNoDraft) {
  DraftBlock block = make();
  EXPECT_TRUE(draft(block, 0, 0, 3).empty());
  EXPECT_TRUE(draft(block, 0, 5, 3).empty());
  take(block, 0, 0, 5);
  EXPECT_TRUE(draft(block, 0, 7, 3).empty());
  EXPECT_EQ(draft(block, 0, 5, 3).size(), 3u);
  block.forget(0);
  EXPECT_TRUE(draft(block, 0, 5, 3).empty());
  // Behind pages that another text left.
  take(block, 0, 32, 3);
  EXPECT_EQ(draft(block, 0, 35, 2).size(), 2u);
}

}  // namespace
}  // namespace butterfly::runtime
