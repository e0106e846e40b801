// A text's state from one cache into another, through a link: what goes on there has the bits of what goes on
// here, whatever its layers keep; and nothing is taken that was not asked for in just this form.
#include "runtime/chain/page_transfer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "cluster/transport/inproc.h"
#include "runtime/chain/resume_message.h"
#include "runtime/engine/local_chain.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using cluster::Link;
using cluster::MessageKind;
using graph::PageKind;

constexpr size_t kPositions = 77;  // two whole pages and a part of one
constexpr uint64_t kEpoch = 7;
const Sha256 kModel = sha256(std::as_bytes(std::span("model and settings")));

int32_t token_at(size_t position) { return static_cast<int32_t>(1 + position * 37 % 300); }

// A cache that is given away.
class OneCache final : public PageStore {
 public:
  explicit OneCache(std::shared_ptr<const StageCache> cache) : cache_(std::move(cache)) {}
  std::shared_ptr<const StageCache> find(const LayersOf& layers) override {
    return layers.model == kModel ? cache_ : nullptr;
  }
  void done(const LayersOf& layers) override { done_.emplace_back(layers.begin, layers.end); }
  std::vector<std::pair<size_t, size_t>> done_;

 private:
  const std::shared_ptr<const StageCache> cache_;
};

// A model on this machine with a cache whose contents have names.
struct Named {
  Named(testing::Loaded& on, DType kv_type) {
    options.positions = 256;
    options.sequences = 2;
    options.kv_type = kv_type;
    options.cut_windows = false;
    const LoadedModel& model = *on.model;
    options.stage_cache = cache = std::make_shared<StageCache>(
        model::CacheShape{model.config.states, kv_type},
        StageCacheOptions{.room = cache_room(model, options), .dim = model.config.row_cols()});
    chain = std::make_unique<LocalChain>(model, on.compute, options);
    EXPECT_TRUE(chain->reset(1, std::chrono::seconds(1)).ok());
  }
  // Positions [first, last) of the text; the logits of the last one.
  std::vector<float> read(size_t first, size_t last, bool place) {
    StepRequest request;
    request.epoch = 1;
    request.step = ++step;
    const uint32_t blocks = 3;
    for (uint32_t block = 0; place && block < blocks; ++block) {
      request.commands.push_back({KvCommand::Kind::kPlace, 0, block, block + 1, PageKind::kFull});
      if (chain->info().state_pages > 0)
        request.commands.push_back({KvCommand::Kind::kPlace, 0, block, block, PageKind::kState});
    }
    for (size_t i = first; i < last; ++i)
      request.rows.push_back(
          {token_at(i), 0, static_cast<uint32_t>(i), i + 1 == last ? RowOutput::kLogits : RowOutput::kNone});
    const Status status = chain->submit(request);
    EXPECT_TRUE(status.ok()) << status.text();
    if (!status) return {};
    const StepResult result = chain->receive(std::chrono::seconds(60));
    EXPECT_TRUE(result.status.ok()) << result.status.text();
    return {result.logits.begin(), result.logits.end()};
  }
  std::vector<PageClaim> claims() const {
    std::vector<PageClaim> claims;
    Lineage name = kNoText;
    for (size_t i = 0; i < kPositions; ++i) {
      name = lineage_after(name, token_at(i));
      if (i % 32 == 31 || i + 1 == kPositions)
        claims.push_back({static_cast<uint32_t>(1 + i / 32), static_cast<uint32_t>(i % 32 + 1), name});
    }
    if (chain->info().state_pages > 0) claims.push_back({2, 1, name, PageKind::kState});
    return claims;
  }
  size_t lacking() const {
    CacheReport report;
    const auto all = claims();
    cache->report(all, report);
    size_t count = 0;
    for (const auto& layer : report.layers)
      for (size_t i = 0; i < all.size(); ++i) count += layer[i] < all[i].count;
    return count;
  }

  PagedLayersOptions options;
  std::shared_ptr<StageCache> cache;
  std::unique_ptr<LocalChain> chain;
  uint64_t step = 0;
};

Status transfer(const std::shared_ptr<const StageCache>& from, StageCache& into,
                std::span<const PageClaim> claims, std::vector<LayersOf> parts, PagesCame& came,
                std::vector<std::pair<size_t, size_t>>* done = nullptr) {
  auto [here, there] = cluster::inproc_pair({"a", "a"}, {"b", "b"});
  OneCache store(from);
  std::thread server([&, link = there.get()] { (void)serve_pages(*link, store); });
  Status status;
  const Deadline deadline(SystemClock::instance(), std::chrono::seconds(30));
  for (const LayersOf& part : parts) {
    if (status) status = receive_pages(*here, kEpoch, part, claims, into, deadline, came);
    if (status) status = send_done(*here, kEpoch, part, std::chrono::seconds(1));
  }
  here->close();
  server.join();
  if (done != nullptr) *done = store.done_;
  return status;
}

class PageTransferTest : public ::testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(PageTransferTest, WhatGoesOnElsewhereHasTheSameBits) {
  const auto [architecture, kv_type] = GetParam();
  testing::RandomModel random(DType::kQ8_0, 1, 7, architecture);
  testing::Loaded& loaded = random.loaded();
  Named here(loaded, kv_type), there(loaded, kv_type);
  here.read(0, kPositions, true);
  EXPECT_EQ(here.lacking(), 0u);
  EXPECT_GT(there.lacking(), 0u);
  const size_t layers = loaded.model->config.layers, half = layers / 2;
  const std::vector<PageClaim> claims = here.claims();
  PagesCame came;
  std::vector<std::pair<size_t, size_t>> done;
  const Status status = transfer(here.cache->part(0, layers), *there.cache, claims,
                                 {{kModel, 0, half}, {kModel, half, layers}}, came, &done);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(there.lacking(), 0u);
  EXPECT_EQ(came.pages, 2 * claims.size());
  uint64_t bytes = 0;
  for (const PageClaim& claim : claims) bytes += page_bytes(*here.cache, claim, 0, layers);
  EXPECT_EQ(came.bytes, bytes);
  EXPECT_EQ(done, (std::vector<std::pair<size_t, size_t>>{{0, half}, {half, layers}}));
  const std::vector<float> want = here.read(kPositions, kPositions + 3, false),
                           got = there.read(kPositions, kPositions + 3, true);
  ASSERT_EQ(want.size(), got.size());
  EXPECT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(float)), 0);
}

// Full, with windows, recurrent, and layers that read another's keys; in every type of cache.
INSTANTIATE_TEST_SUITE_P(
    Layers, PageTransferTest,
    ::testing::Values(std::tuple("llama", DType::kF16), std::tuple("llama", DType::kQ8_0),
                      std::tuple("llama", DType::kF32), std::tuple("gemma3", DType::kF16),
                      std::tuple("gemma3", DType::kQ8_0), std::tuple("qwen35", DType::kF16),
                      std::tuple("gemma4", DType::kF16), std::tuple("gemma4", DType::kQ8_0)),
    [](const auto& param) {
      return std::string(std::get<0>(param.param)) + "_" + std::string(dtype_name(std::get<1>(param.param)));
    });

struct PageTransferHostileTest : ::testing::Test {
  PageTransferHostileTest() { from.read(0, kPositions, true); }
  LayersOf all() { return {kModel, 0, random.loaded().model->config.layers}; }
  // Answers the first request with these messages.
  Status receive(const std::vector<std::vector<std::byte>>& answers, uint64_t epoch = kEpoch) {
    auto [here, there] = cluster::inproc_pair({"a", "a"}, {"b", "b"});
    for (const auto& answer : answers) {
      const std::span<const std::byte> pieces[] = {answer};
      EXPECT_TRUE(there
                      ->send({.kind = MessageKind::kCache, .epoch = epoch, .step = 1, .bytes = 0}, pieces,
                             std::chrono::seconds(1))
                      .ok());
    }
    PagesCame came;
    const Deadline deadline(SystemClock::instance(), std::chrono::milliseconds(50));
    const Status status = receive_pages(*here, kEpoch, all(), from.claims(), *into.cache, deadline, came);
    EXPECT_EQ(came.pages, 0u);
    EXPECT_EQ(into.lacking(), lacked) << "nothing of it was taken";
    return status;
  }
  // The messages with which a holder answers for the first claim.
  std::vector<std::vector<std::byte>> right_answer() {
    auto [here, there] = cluster::inproc_pair({"a", "a"}, {"b", "b"});
    OneCache store(from.cache);
    std::thread server([&, link = there.get()] { (void)serve_pages(*link, store); });
    std::vector<std::byte> request(64);
    std::memcpy(request.data(), kModel.data(), kModel.size());
    const uint32_t end = static_cast<uint32_t>(all().end);
    std::memcpy(request.data() + 36, &end, sizeof end);
    const std::vector<PageClaim> claims = from.claims();
    write_claims(std::span(claims).first(1), request);
    const std::span<const std::byte> pieces[] = {request};
    EXPECT_TRUE(here->send({.kind = MessageKind::kCache, .epoch = kEpoch, .step = 1, .bytes = 0}, pieces,
                           std::chrono::seconds(1))
                    .ok());
    std::vector<std::vector<std::byte>> answer;
    for (size_t i = 0; i < 2; ++i) {
      const auto head = here->receive_head(std::chrono::seconds(5));
      EXPECT_TRUE(head.ok());
      answer.emplace_back(head ? head->bytes : 0);
      EXPECT_TRUE(here->receive_body(answer.back(), std::chrono::seconds(5)).ok());
    }
    here->close();
    server.join();
    return answer;
  }

  testing::RandomModel random{DType::kQ8_0, 1};
  Named from{random.loaded(), DType::kF16}, into{random.loaded(), DType::kF16};
  const size_t lacked = into.lacking();
};

TEST_F(PageTransferHostileTest, AnswersThatDoNotFitEndTheTransfer) {
  const auto right = right_answer();
  const auto with = [&](size_t message, size_t byte) {
    auto answer = right;
    answer[message][byte] ^= std::byte{1};
    return answer;
  };
  EXPECT_EQ(receive(with(1, 100)).code(), Errc::kCorrupt) << "a byte of the page";
  EXPECT_EQ(receive(with(0, 20)).code(), Errc::kCorrupt) << "a name";
  EXPECT_EQ(receive(with(0, 9)).code(), Errc::kCorrupt) << "the check";
  EXPECT_EQ(receive(with(0, 0)).code(), Errc::kCorrupt) << "here or not";
  EXPECT_EQ(receive(with(0, 4)).code(), Errc::kCorrupt) << "number of names";
  EXPECT_EQ(receive(right, kEpoch - 1).code(), Errc::kCorrupt) << "of another epoch";
  auto longer = right;
  longer[1].push_back({});
  EXPECT_EQ(receive(longer).code(), Errc::kCorrupt);
  auto shorter = right;
  shorter[0].resize(20);
  EXPECT_EQ(receive(shorter).code(), Errc::kCorrupt);
  EXPECT_EQ(receive({}).code(), Errc::kTimeout) << "nothing comes";
  EXPECT_EQ(receive({right[0]}).code(), Errc::kTimeout) << "the page does not come";
}

TEST_F(PageTransferHostileTest, RequestsThatNoProgramOfOursSendsEndTheLink) {
  const auto answer_to = [&](MessageKind kind, const std::vector<std::byte>& request) {
    auto [here, there] = cluster::inproc_pair({"a", "a"}, {"b", "b"});
    OneCache store(from.cache);
    const std::span<const std::byte> pieces[] = {request};
    EXPECT_TRUE(
        here->send({.kind = kind, .epoch = 1, .step = 1, .bytes = 0}, pieces, std::chrono::seconds(1)).ok());
    Status status;
    std::thread server([&, link = there.get()] { status = serve_pages(*link, store); });
    (void)here->receive_head(std::chrono::milliseconds(100));
    here->close();
    server.join();
    return status.code();
  };
  std::vector<std::byte> request(64);
  request[36] = std::byte{2};
  std::vector<PageClaim> claims(kRequestClaims + 1, from.claims()[0]);
  const auto with_claims = [&](size_t count) {
    auto bytes = request;
    write_claims(std::span(claims).first(count), bytes);
    return bytes;
  };
  EXPECT_NE(answer_to(MessageKind::kCache, with_claims(kRequestClaims)), Errc::kCorrupt);
  EXPECT_EQ(answer_to(MessageKind::kCache, with_claims(kRequestClaims + 1)), Errc::kCorrupt);
  EXPECT_EQ(answer_to(MessageKind::kWeights, with_claims(1)), Errc::kCorrupt);
  EXPECT_EQ(answer_to(MessageKind::kCache, request), Errc::kCorrupt) << "no claims at all";
  auto bytes = with_claims(1);
  bytes.pop_back();
  EXPECT_EQ(answer_to(MessageKind::kCache, bytes), Errc::kCorrupt);
  bytes = with_claims(1);
  bytes[36] = {};
  EXPECT_EQ(answer_to(MessageKind::kCache, bytes), Errc::kCorrupt) << "layers 0 to 0";
  bytes = with_claims(1);
  bytes[50] = std::byte{1};
  EXPECT_EQ(answer_to(MessageKind::kCache, bytes), Errc::kCorrupt) << "zeros that are none";
  claims[0].count = 33;
  EXPECT_EQ(answer_to(MessageKind::kCache, with_claims(1)), Errc::kCorrupt) << "more than a page holds";
}

// Another model, pages and layers that are not there, texts that nobody has: nothing comes, and nothing
// breaks.
TEST_F(PageTransferHostileTest, WhatIsNotThereIsNotSent) {
  PagesCame came;
  LayersOf other = all();
  other.model[0] ^= std::byte{1};
  EXPECT_TRUE(transfer(from.cache, *into.cache, from.claims(), {other}, came).ok());
  EXPECT_EQ(came.pages, 0u);
  std::vector<PageClaim> claims = from.claims();
  for (PageClaim& claim : claims) claim.lineage[0] ^= std::byte{1};
  EXPECT_TRUE(transfer(from.cache, *into.cache, claims, {all()}, came).ok());
  claims = {{100'000, 1, claims[0].lineage}, {100'000, 1, claims[0].lineage, PageKind::kState}};
  EXPECT_TRUE(transfer(from.cache, *into.cache, claims, {all()}, came).ok());
  EXPECT_TRUE(transfer(from.cache->part(1, 2), *into.cache, from.claims(), {all()}, came).ok());
  EXPECT_EQ(came.pages, 0u);
  EXPECT_EQ(into.lacking(), lacked);
}

// A cache that has other names in the page for the same claim does not mix the two.
TEST_F(PageTransferHostileTest, NamesThatContradictThoseHereAreRefused) {
  const PageClaim claim = from.claims()[0];
  std::vector<Lineage> names(from.cache->names(claim).begin(), from.cache->names(claim).end());
  ASSERT_EQ(names.size(), 32u);
  EXPECT_TRUE(into.cache->adopt_names(claim, names));
  EXPECT_TRUE(into.cache->adopt_names(claim, names)) << "the same again";
  names[3][0] ^= std::byte{1};
  EXPECT_FALSE(into.cache->adopt_names(claim, names));
  names.pop_back();
  EXPECT_FALSE(into.cache->adopt_names(claim, names));
  EXPECT_FALSE(into.cache->adopt_names({9'999, 1, names[0]}, {names.data(), 1}));
}

}  // namespace
}  // namespace butterfly::runtime
