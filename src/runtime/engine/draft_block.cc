#include "runtime/engine/draft_block.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace butterfly::runtime {
namespace {

constexpr size_t kBuiltMax = 16;  // shapes whose graphs are kept

model::CacheRoom room_of(const DraftBlockOptions& options) {
  model::CacheRoom room;
  room.pages[static_cast<size_t>(graph::PageKind::kFull)] = options.pages;
  room.sequences = options.sequences;
  return room;
}

}  // namespace

DraftBlock::DraftBlock(const model::Predictor& predictor, size_t dim, size_t vocab,
                       const DraftBlockOptions& options)
    : predictor_(predictor),
      dim_(dim),
      vocab_(vocab),
      options_(options),
      memory_({{predictor.state()}, options.kv_type}, room_of(options)),
      texts_(options.sequences),
      zeros_(dim) {
  memory_.extend(0, 1);
}

void DraftBlock::forget_all() {
  for (Text& text : texts_) text = {};
  batch_.clear();
}

void DraftBlock::Batch::clear() {
  tokens.clear();
  selected.clear();
  rows.clear();
  hidden.clear();
}

void DraftBlock::add(uint32_t sequence, size_t position, int32_t token, const float* hidden) {
  batch_.tokens.push_back(token);
  batch_.rows.push_back({sequence, static_cast<uint32_t>(position)});
  batch_.hidden.insert(batch_.hidden.end(), hidden, hidden + dim_);
}

const float* DraftBlock::hidden_at(const Text& text, size_t position) const {
  return position < text.first || position >= text.end() ? zeros_.data()
                                                         : &text.hidden[(position - text.first) * dim_];
}

void DraftBlock::add_known(uint32_t sequence, size_t end) {
  Text& text = texts_[sequence];
  for (size_t p = text.seen; p < end; ++p)
    add(sequence, p, text.tokens[p - text.first], p == 0 ? zeros_.data() : hidden_at(text, p - 1));
  text.seen = std::max(text.seen, end);
}

void DraftBlock::take(ThreadPool& pool, std::span<const StepRow> rows, std::span<const float> hidden,
                      Pages pages) {
  BF_CHECK(hidden.size() == rows.size() * dim_) << hidden.size() << " values of " << rows.size() << " rows";
  for (size_t begin = 0, end; begin < rows.size(); begin = end) {
    const uint32_t sequence = rows[begin].sequence;
    end = begin + 1;
    while (end < rows.size() && rows[end].sequence == sequence) ++end;
    const size_t position = rows[begin].position;
    const auto certain = static_cast<size_t>(
        std::ranges::count_if(rows.subspan(begin, end - begin), [](const StepRow& r) { return !r.guess; }));
    Text& text = texts_[sequence];
    if (text.tokens.empty() || position < text.first || position > text.end() || text.seen < text.first) {
      text = {.seen = position, .first = position, .tokens = {}, .hidden = {}};
    } else {  // what comes now goes before what was guessed
      text.tokens.resize(position - text.first);
      text.hidden.resize(text.tokens.size() * dim_);
      text.seen = std::min(text.seen, position + 1);
    }
    for (size_t i = begin; i < end; ++i) text.tokens.push_back(rows[i].token);
    text.hidden.insert(text.hidden.end(), hidden.begin() + static_cast<ptrdiff_t>(begin * dim_),
                       hidden.begin() + static_cast<ptrdiff_t>(end * dim_));
    add_known(sequence, position + certain);
    // The last certain row is what the next one, or a draft, goes on from.
    const size_t keep = position + std::max<size_t>(certain, 1) - 1, dropped = keep - text.first;
    text.tokens.erase(text.tokens.begin(), text.tokens.begin() + static_cast<ptrdiff_t>(dropped));
    text.hidden.erase(text.hidden.begin(), text.hidden.begin() + static_cast<ptrdiff_t>(dropped * dim_));
    text.first = keep;
  }
  run_without_outputs(pool, pages);
}

std::vector<std::vector<int32_t>> DraftBlock::draft(ThreadPool& pool, std::span<const DraftAsk> asks,
                                                    Pages pages) {
  std::vector<std::vector<int32_t>> drafts(asks.size());
  std::vector<size_t> asked;  // those that are drafted, in the order of the outputs
  for (size_t i = 0; i < asks.size(); ++i) {
    const DraftAsk& ask = asks[i];
    Text& text = texts_[ask.sequence];
    if (ask.count == 0 || text.tokens.empty() || ask.position == 0 || ask.position > text.end() ||
        text.seen < text.first || text.seen > ask.position + 1)
      continue;
    add_known(ask.sequence, ask.position);
    add(ask.sequence, ask.position, ask.token, hidden_at(text, ask.position - 1));
    batch_.selected.push_back(static_cast<int32_t>(batch_.rows.size()) - 1);
    text.seen = ask.position + 1;
    asked.push_back(i);
  }
  while (!asked.empty()) {
    const Built& b = run(pool, pages);
    const float* normed = b.executor->output(b.values.normed);
    std::vector<size_t> going_on;
    std::vector<std::pair<size_t, size_t>> next;  // ask, output
    for (size_t i = 0; i < asked.size(); ++i) {
      std::vector<int32_t>& draft = drafts[asked[i]];
      draft.push_back(likeliest(b, i));
      if (draft.size() < asks[asked[i]].count) next.emplace_back(asked[i], i);
    }
    for (const auto& [ask, output] : next) {
      add(asks[ask].sequence, asks[ask].position + drafts[ask].size(), drafts[ask].back(),
          normed + output * dim_);
      batch_.selected.push_back(static_cast<int32_t>(batch_.rows.size()) - 1);
      going_on.push_back(ask);
    }
    asked = std::move(going_on);
  }
  return drafts;
}

int32_t DraftBlock::likeliest(const Built& b, size_t output) const {
  const float* logits = b.executor->output(b.values.logits) + output * vocab_;
  return static_cast<int32_t>(std::max_element(logits, logits + vocab_) - logits);
}

DraftBlock::Built& DraftBlock::built(size_t rows, size_t output_rows) {
  const auto it = std::ranges::find_if(
      built_, [&](const Built& b) { return b.rows == rows && b.output_rows == output_rows; });
  if (it != built_.end()) {
    built_.splice(built_.begin(), built_, it);
    return built_.front();
  }
  graph::Graph graph;
  const model::PredictorValues values = predictor_.build(graph, rows, output_rows);
  built_.push_front({rows, output_rows, values,
                     std::make_unique<graph::Executor>(std::move(graph), arena_, options_.threads)});
  if (built_.size() > kBuiltMax) built_.pop_back();
  return built_.front();
}

DraftBlock::Built& DraftBlock::run(ThreadPool& pool, Pages pages) {
  Built& b = built(batch_.rows.size(), batch_.selected.size());
  const auto ints = [&](graph::ValueId value) {
    return reinterpret_cast<int32_t*>(b.executor->input(value));
  };
  std::ranges::copy(batch_.tokens, ints(b.values.tokens));
  std::ranges::copy(batch_.hidden, reinterpret_cast<float*>(b.executor->input(b.values.hidden)));
  std::ranges::transform(batch_.rows, ints(b.values.positions),
                         [](const graph::KvRow& row) { return static_cast<int32_t>(row.position); });
  if (!batch_.selected.empty()) std::ranges::copy(batch_.selected, ints(b.values.selected));
  model::PageTables tables;
  tables[static_cast<size_t>(graph::PageKind::kFull)] = pages;
  const graph::KvStep kv = memory_.step(tables, batch_.rows);
  b.executor->run(&kv, pool);
  batch_.clear();
  return b;
}

void DraftBlock::run_without_outputs(ThreadPool& pool, Pages pages) {
  if (batch_.rows.empty()) return;
  if (batch_.rows.size() <= options_.rows_max) {
    run(pool, pages);
    return;
  }
  const Batch all = std::exchange(batch_, {});
  for (size_t begin = 0; begin < all.rows.size(); begin += options_.rows_max) {
    const size_t end = std::min(begin + options_.rows_max, all.rows.size());
    for (size_t i = begin; i < end; ++i)
      add(all.rows[i].sequence, all.rows[i].position, all.tokens[i], &all.hidden[i * dim_]);
    run(pool, pages);
  }
}

}  // namespace butterfly::runtime
