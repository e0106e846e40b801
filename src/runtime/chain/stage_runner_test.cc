// Stages against peers that send what they should not: the link is closed, and nothing else happens.
#include "runtime/chain/stage_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <future>
#include <limits>
#include <thread>

#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "cluster/transport/inproc.h"
#include "runtime/chain/testing/inproc_chain.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using cluster::Link;
using cluster::MessageHead;
using cluster::MessageKind;
using ::testing::HasSubstr;
using testing::InprocChain;
using testing::LoadedPart;

constexpr Duration kPatience = std::chrono::seconds(60);
constexpr size_t kLayers = 2, kDim = 256, kRowsMax = 16;

ChainOptions small_chain() {
  ChainOptions options;
  options.cache.positions = 256;  // eight pages
  options.cache.sequences = 4;
  options.cache.rows_max = kRowsMax;
  return options;
}

// One runner between two links whose other ends are the test's.
class Bench {
 public:
  Bench(StageRunner& runner) : runner_(runner) { start(); }
  ~Bench() {
    if (ended_.valid()) (void)end();
  }

  void start() {
    std::shared_ptr<Link> from, to;
    std::tie(in, from) = cluster::inproc_pair({"a", "before"}, {"b", "worker"});
    std::tie(to, out) = cluster::inproc_pair({"b", "worker"}, {"c", "behind"});
    ended_ = std::async(std::launch::async, [this, from, to] { return runner_.run(from, to); });
  }
  // Why the run ended.
  Status why() { return ended_.get(); }
  Status end() {
    runner_.close();
    in->close();
    out->close();
    return why();
  }
  void send(MessageKind kind, uint64_t epoch, uint64_t step, const std::vector<std::byte>& body) {
    const std::span<const std::byte> pieces[] = {body};
    EXPECT_TRUE(in->send({.kind = kind, .epoch = epoch, .step = step, .bytes = 0}, pieces, kPatience).ok());
  }
  void reset(uint64_t epoch) {
    send(MessageKind::kControl, epoch, 0, {});
    const auto head = out->receive_head(kPatience);
    ASSERT_TRUE(head.ok());
    EXPECT_EQ(head->kind, MessageKind::kControl);
    EXPECT_EQ(head->epoch, epoch);
    EXPECT_TRUE(out->receive_body({}, kPatience).ok());
  }
  // The next message that comes out.
  std::pair<MessageHead, std::vector<std::byte>> receive() {
    const auto head = out->receive_head(kPatience);
    EXPECT_TRUE(head.ok()) << head.status().text();
    std::vector<std::byte> body(head->bytes);
    EXPECT_TRUE(out->receive_body(body, kPatience).ok());
    return {*head, body};
  }

  std::shared_ptr<Link> in, out;

 private:
  StageRunner& runner_;
  std::future<Status> ended_;
};

StepRequest step_of(std::vector<StepRow> rows) {
  StepRequest request;
  request.commands = {{KvCommand::Kind::kForget, 1}, {KvCommand::Kind::kPlace, 1, 0, 3}};
  request.rows = std::move(rows);
  return request;
}

std::vector<std::byte> body_of(const StepRequest& request, size_t place) {
  std::vector<std::byte> bytes;
  write_header(request, bytes);
  for (size_t i = 0; i < place; ++i) write_times({}, bytes);
  if (place > 0)
    for (size_t i = 0; i < request.rows.size() * kDim; ++i) {
      const float value = random_uniform(1, 2, i) - 0.5f;
      const auto* raw = reinterpret_cast<const std::byte*>(&value);
      bytes.insert(bytes.end(), raw, raw + sizeof value);
    }
  return bytes;
}

// A first stage and a middle one.
struct StageRunnerTest : ::testing::Test {
  StageRunnerTest() {
    model::RandomModelOptions options = testing::small_options("llama", DType::kQ8_0);
    write_random_model(path, options);
    first_part = std::make_unique<LoadedPart>(path, model::range_of_pieces(0, 2, kLayers), 1);
    middle_part = std::make_unique<LoadedPart>(path, model::range_of_pieces(2, 3, kLayers), 1);
    first = std::make_unique<StageRunner>(*first_part->model, first_part->compute, 0, small_chain());
    middle = std::make_unique<StageRunner>(*middle_part->model, middle_part->compute, 1, small_chain());
  }
  butterfly::testing::TempDir folder;
  std::filesystem::path path = folder.path() / "model.gguf";
  std::unique_ptr<LoadedPart> first_part, middle_part;
  std::unique_ptr<StageRunner> first, middle;
};

const std::vector<StepRow> kGoodRows = {{5, 1, 0, RowOutput::kNone}, {6, 1, 1, RowOutput::kLogits}};

// What other threads bring about sooner or later, and then holds for a while.
bool stays(const std::function<bool()>& holds) {
  const TimePoint end = SystemClock::instance().now() + kPatience;
  for (int times = 0; times < 20; times = holds() ? times + 1 : 0) {
    if (SystemClock::instance().now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Heartbeats carry this: a step that does not end is seen while it stands still, and not before or after.
TEST_F(StageRunnerTest, AStepThatStandsStillIsPending) {
  StageRunner runner(*first_part->model, first_part->compute, 0, small_chain());
  EXPECT_EQ(runner.pending(), 0u);
  Bench bench(runner);
  bench.reset(7);
  EXPECT_EQ(runner.pending(), 0u) << "idle";
  std::optional<Compute::Turn> hung(first_part->compute.take());
  bench.send(MessageKind::kTokens, 7, 1, body_of(step_of(kGoodRows), 0));
  bench.send(MessageKind::kTokens, 7, 2, body_of(step_of({{7, 1, 2, RowOutput::kLogits}}), 0));
  const uint64_t before = runner.progress();
  EXPECT_TRUE(stays([&] { return runner.pending() == 1; }));
  EXPECT_EQ(runner.progress(), before);
  hung.reset();
  (void)bench.receive();
  (void)bench.receive();
  EXPECT_TRUE(stays([&] { return runner.pending() == 0 && runner.progress() == before + 2; }));
  EXPECT_EQ(bench.end().code(), Errc::kCancelled);
}

// Not its own fault: the stage behind it takes nothing.
TEST_F(StageRunnerTest, WaitingForTheNextStageIsNotPending) {
  std::shared_ptr<Link> in, from, to, out;
  std::tie(in, from) = cluster::inproc_pair({"a", "before"}, {"b", "worker"});
  std::tie(to, out) = cluster::inproc_pair({"b", "worker"}, {"c", "behind"}, {.messages_max = 1});
  auto ended = std::async(std::launch::async, [&] { return first->run(from, to); });
  const auto send = [&](MessageKind kind, uint64_t step, const std::vector<std::byte>& body) {
    const std::span<const std::byte> pieces[] = {body};
    ASSERT_TRUE(in->send({.kind = kind, .epoch = 3, .step = step, .bytes = 0}, pieces, kPatience).ok());
  };
  send(MessageKind::kControl, 0, {});  // fills what the next stage would take
  send(MessageKind::kTokens, 1, body_of(step_of(kGoodRows), 0));
  send(MessageKind::kTokens, 2, body_of(step_of({{7, 1, 2, RowOutput::kLogits}}), 0));
  EXPECT_TRUE(stays([&] { return from->waiting() && first->pending() == 0; })) << "the second step waits";
  first->close();
  EXPECT_EQ(ended.get().code(), Errc::kCancelled);
}

// Nothing comes over it, says the link, and nothing closes it.
struct HushedLink final : Link {
  explicit HushedLink(std::shared_ptr<Link> link) : inner(std::move(link)) {}
  const cluster::NodeId& peer() const override { return inner->peer(); }
  Status send(cluster::MessageHead head, std::span<const std::span<const std::byte>> pieces,
              Duration timeout) override {
    return inner->send(head, pieces, timeout);
  }
  Result<MessageHead> receive_head(Duration timeout) override { return inner->receive_head(timeout); }
  Status receive_body(std::span<std::byte> into, Duration timeout) override {
    return inner->receive_body(into, timeout);
  }
  Duration silent() const override { return std::chrono::hours(1); }
  void close() override { inner->close(); }
  cluster::LinkCounters counters() const override { return inner->counters(); }
  const std::shared_ptr<Link> inner;
};

TEST_F(StageRunnerTest, AStageThatHearsNothingEndsAndNamesTheOneBefore) {
  std::shared_ptr<Link> in, from, to, out;
  std::tie(in, from) = cluster::inproc_pair({"a", "before"}, {"b", "worker"});
  std::tie(to, out) = cluster::inproc_pair({"b", "worker"}, {"c", "behind"});
  auto ended =
      std::async(std::launch::async, [&] { return first->run(std::make_shared<HushedLink>(from), to); });
  while (ended.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
    first->watch(std::chrono::milliseconds(400));
  const Status why = ended.get();
  EXPECT_EQ(why.code(), Errc::kPeerLost);
  EXPECT_THAT(why.text(), HasSubstr("before: nothing has come from it"));
  EXPECT_EQ(first->blamed().name, "before");
  EXPECT_FALSE(out->receive_head(kPatience).ok()) << "the next stage knows at once";
}

TEST_F(StageRunnerTest, SendsRowsOnAndCountsThem) {
  Bench bench(*first);
  bench.reset(7);
  bench.send(MessageKind::kTokens, 7, 1, body_of(step_of(kGoodRows), 0));
  const auto [head, body] = bench.receive();
  EXPECT_EQ(head.kind, MessageKind::kActivations);
  EXPECT_EQ(head.epoch, 7u);
  EXPECT_EQ(head.step, 1u);
  StepMessage message;
  ASSERT_TRUE(message.read(
      body, chain_limits(chain_info(*first_part->model, small_chain().cache), row_formats()[0]), 1, 1));
  EXPECT_GT(message.times[0].compute.count(), 0);
  EXPECT_EQ(bench.end().code(), Errc::kCancelled);
  EXPECT_EQ(first->stats().steps, 1u);
  EXPECT_EQ(first->stats().rows, 2u);
  EXPECT_EQ(first->progress(), 1u);
}

TEST_F(StageRunnerTest, DropsAndCountsWhatIsOfAnOlderEpoch) {
  Bench bench(*first);
  bench.reset(7);
  bench.reset(9);
  bench.send(MessageKind::kTokens, 7, 1, body_of(step_of(kGoodRows), 0));
  bench.send(MessageKind::kTokens, 8, 1, std::vector<std::byte>(100));  // not even looked at
  bench.send(MessageKind::kControl, 8, 0, {});
  bench.send(MessageKind::kControl, 9, 0, {});
  bench.send(MessageKind::kTokens, 9, 1, body_of(step_of(kGoodRows), 0));
  EXPECT_EQ(bench.receive().first.epoch, 9u);
  EXPECT_EQ(bench.end().code(), Errc::kCancelled);
  EXPECT_EQ(first->stats().stale, 4u);
  EXPECT_EQ(first->stats().steps, 1u);
}

TEST_F(StageRunnerTest, AResetDropsTheCache) {
  Bench bench(*first);
  bench.reset(1);
  bench.send(MessageKind::kTokens, 1, 1, body_of(step_of(kGoodRows), 0));
  bench.receive();
  bench.reset(2);
  StepRequest next;  // goes on where the step before ended
  next.rows = {{5, 1, 2, RowOutput::kNone}};
  bench.send(MessageKind::kTokens, 2, 1, body_of(next, 0));
  const Status why = bench.why();
  EXPECT_EQ(why.code(), Errc::kCorrupt);
  EXPECT_THAT(why.text(), HasSubstr("0 of its blocks have a page"));
}

// Every way to be wrong that we can think of; the same runner then serves the next chain.
TEST_F(StageRunnerTest, ClosesItsLinksOnWhatItDoesNotExpect) {
  const auto rows = [](std::vector<StepRow> r) { return step_of(std::move(r)); };
  const auto commands = [](std::vector<KvCommand> c) {
    StepRequest request = step_of(kGoodRows);
    request.commands = std::move(c);
    return request;
  };
  using enum KvCommand::Kind;
  struct Case {
    const char* what;
    StepRequest request;
    const char* words;
  };
  const Case kCases[] = {
      {"a sequence that is not there", rows({{5, 4, 0, RowOutput::kNone}}), "sequence 4 of 4"},
      {"a position without a page", rows({{5, 1, 32, RowOutput::kNone}}), "blocks have a page"},
      {"a position far outside", rows({{5, 1, UINT32_MAX, RowOutput::kNone}}), "blocks have a page"},
      {"a sequence without pages", rows({{5, 2, 0, RowOutput::kNone}}), "0 of its blocks"},
      {"a hole before the row",
       [&] {
         auto r = commands({{kForget, 1}, {kPlace, 1, 1, 3}});
         r.rows = {{5, 1, 33, RowOutput::kNone}};
         return r;
       }(),
       "0 of its blocks"},
      {"positions backwards", rows({{5, 1, 1, RowOutput::kNone}, {5, 1, 0, RowOutput::kNone}}),
       "out of order"},
      {"a position twice", rows({{5, 1, 1, RowOutput::kNone}, {5, 1, 1, RowOutput::kNone}}), "out of order"},
      {"a position left out", rows({{5, 1, 1, RowOutput::kNone}, {5, 1, 3, RowOutput::kNone}}),
       "out of order"},
      {"a sequence in two parts",
       [&] {
         auto r = commands({{kPlace, 1, 0, 3}, {kPlace, 2, 0, 4}});
         r.rows = {{5, 1, 0, RowOutput::kNone}, {5, 2, 0, RowOutput::kNone}, {5, 1, 1, RowOutput::kNone}};
         return r;
       }(),
       "out of order"},
      {"a token outside", rows({{320, 1, 0, RowOutput::kNone}}), "vocabulary of 320"},
      {"a token below", rows({{-1, 1, 0, RowOutput::kNone}}), "vocabulary of 320"},
      {"a page outside", commands({{kPlace, 1, 0, 8}}), "page 8 of 8"},
      {"a block outside", commands({{kPlace, 1, 8, 0}}), "block 8"},
      {"a page far outside", commands({{kPlace, 1, UINT32_MAX, UINT32_MAX}}), "page"},
      {"a command for nobody", commands({{kForget, 4}}), "sequence 4 of 4"},
      {"an unknown command", commands({{static_cast<KvCommand::Kind>(9), 1}}), "command 9"},
      {"an unknown output", rows({{5, 1, 0, static_cast<RowOutput>(7)}}), "output 7"},
      {"too many rows", rows(std::vector<StepRow>(kRowsMax + 1, StepRow{5, 1, 0, RowOutput::kNone})),
       "expected"},
      {"no rows", rows({}), "0 rows"},
  };
  for (StageRunner* runner : {first.get(), middle.get()}) {
    const size_t place = runner == first.get() ? 0 : 1;
    const MessageKind kind = place == 0 ? MessageKind::kTokens : MessageKind::kActivations;
    for (const Case& c : kCases) {
      Bench bench(*runner);
      bench.reset(1);
      bench.send(kind, 1, 1, body_of(c.request, place));
      const Status why = bench.why();
      EXPECT_EQ(why.code(), Errc::kCorrupt) << c.what;
      EXPECT_THAT(why.text(), HasSubstr(c.words)) << c.what;
      EXPECT_EQ(bench.out->receive_head(kPatience).status().code(), Errc::kPeerLost) << c.what;
    }
    EXPECT_EQ(runner->stats().steps, 0u);
    Bench bench(*runner);
    bench.reset(1);
    bench.send(kind, 1, 1, body_of(step_of(kGoodRows), place));
    EXPECT_EQ(bench.receive().first.kind, MessageKind::kActivations);
  }
}

TEST_F(StageRunnerTest, RefusesKindsEpochsStepsAndLengths) {
  const auto good = body_of(step_of(kGoodRows), 0);
  struct Case {
    MessageKind kind;
    uint64_t epoch, step;
    std::vector<std::byte> body;
    const char* words;
  };
  const Case kCases[] = {
      {MessageKind::kActivations, 1, 2, good, "kind 5"},
      {MessageKind::kResult, 1, 2, std::vector<std::byte>(8), "kind 6"},
      {MessageKind::kHello, 1, 2, {}, "kind 1"},
      {MessageKind::kWeights, 1, 2, std::vector<std::byte>(1000), "kind 7"},
      {MessageKind::kControl, 2, 0, std::vector<std::byte>(1), "expected at most 0"},
      {MessageKind::kTokens, 2, 1, good, "no reset has come"},
      {MessageKind::kTokens, UINT64_MAX, 1, good, "no reset has come"},
      {MessageKind::kTokens, 1, 1, good, "step 1 came before"},
      {MessageKind::kTokens, 1, 2, std::vector<std::byte>(3), "3 bytes"},
      {MessageKind::kTokens, 1, 2, std::vector<std::byte>(1 << 20), "expected at most"},
      {MessageKind::kTokens, 0, 2, std::vector<std::byte>(1 << 20), "expected at most"},
  };
  for (const Case& c : kCases) {
    Bench bench(*first);
    bench.reset(1);
    bench.send(MessageKind::kTokens, 1, 1, good);
    bench.receive();
    bench.send(c.kind, c.epoch, c.step, c.body);
    const Status why = bench.why();
    EXPECT_EQ(why.code(), Errc::kCorrupt) << c.words;
    EXPECT_THAT(why.text(), HasSubstr(c.words));
  }
}

// Mutated messages: computed if they make sense, otherwise the link ends; nothing hangs, nothing breaks.
TEST_F(StageRunnerTest, MutatedMessagesEndTheLinkOrAreComputed) {
  size_t computed = 0, refused = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const bool at_first = seed % 2 == 0;
    StageRunner& runner = at_first ? *first : *middle;
    auto body = body_of(step_of(kGoodRows), at_first ? 0 : 1);
    const size_t header = 16 + 4 * 16;
    for (uint64_t i = 0; i <= random_u64(seed, 1, 0) % 4; ++i) {
      const uint64_t draw = random_u64(seed, 2, i);
      // Small values in the low byte of a field are the ones that may pass.
      const size_t at = draw % header;
      body[at] = std::byte(draw % 3 == 0 ? draw >> 32 : (draw >> 32) % 5);
    }
    if (random_u64(seed, 3, 0) % 8 == 0) body.resize(random_u64(seed, 3, 1) % (body.size() + 64));
    Bench bench(runner);
    bench.reset(1);
    bench.send(at_first ? MessageKind::kTokens : MessageKind::kActivations, 1, 1, body);
    const auto head = bench.out->receive_head(kPatience);
    if (head.ok()) {
      EXPECT_EQ(head->kind, MessageKind::kActivations);
      ++computed;
      EXPECT_EQ(bench.end().code(), Errc::kCancelled);
    } else {
      ++refused;
      EXPECT_EQ(bench.why().code(), Errc::kCorrupt) << seed;
    }
  }
  EXPECT_GT(computed, 20u);
  EXPECT_GT(refused, 100u);
}

// Rows that are no numbers are garbage, but harmless garbage.
TEST_F(StageRunnerTest, RowsThatAreNotNumbersAreComputedAllTheSame) {
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::max()}) {
    Bench bench(*middle);
    bench.reset(1);
    auto body = body_of(step_of(kGoodRows), 1);
    for (size_t i = 0; i < kDim; i += 3)
      std::memcpy(body.data() + body.size() - (i + 1) * sizeof poison, &poison, sizeof poison);
    bench.send(MessageKind::kActivations, 1, 1, body);
    EXPECT_EQ(bench.receive().first.kind, MessageKind::kActivations);
  }
}

TEST_F(StageRunnerTest, AFailureOfAnEarlierStagePassesAndTheRestOfTheEpochIsDropped) {
  Bench bench(*middle);
  bench.reset(1);
  std::vector<std::byte> failure;
  write_failure({Errc::kOutOfMemory, "no room"}, failure);
  bench.send(MessageKind::kResult, 1, 1, failure);
  const auto [head, body] = bench.receive();
  EXPECT_EQ(head.kind, MessageKind::kResult);
  EXPECT_EQ(body, failure);
  bench.send(MessageKind::kActivations, 1, 2, body_of(step_of(kGoodRows), 1));
  bench.reset(2);  // nothing came before it
  bench.send(MessageKind::kActivations, 2, 1, body_of(step_of(kGoodRows), 1));
  EXPECT_EQ(bench.receive().first.kind, MessageKind::kActivations);
}

TEST_F(StageRunnerTest, ALostNeighbourEndsTheRunAndTheOtherLink) {
  {
    Bench bench(*first);
    bench.reset(1);
    bench.in->close();
    EXPECT_EQ(bench.why().code(), Errc::kPeerLost);
    EXPECT_EQ(bench.out->receive_head(kPatience).status().code(), Errc::kPeerLost);
  }
  Bench bench(*first);
  bench.reset(1);
  bench.out->close();
  bench.send(MessageKind::kTokens, 1, 1, body_of(step_of(kGoodRows), 0));
  EXPECT_EQ(bench.why().code(), Errc::kPeerLost);
  EXPECT_EQ(bench.in->receive_head(kPatience).status().code(), Errc::kPeerLost);
}

TEST_F(StageRunnerTest, PlacesAndPartsMustFit) {
  EXPECT_THROW(StageRunner(*first_part->model, first_part->compute, 1, small_chain()), Error);
  EXPECT_THROW(StageRunner(*middle_part->model, middle_part->compute, 0, small_chain()), Error);
  LoadedPart last(path, model::range_of_pieces(3, 4, kLayers), 1);
  EXPECT_THROW(StageRunner(*last.model, last.compute, 2, small_chain()), Error);
}

// The coordinator's end of a chain whose last worker is the test.
struct LinkedChainTest : StageRunnerTest {
  LinkedChainTest() {
    std::tie(to_first, first_in) = cluster::inproc_pair({"a", "coordinator"}, {"b", "first"});
    std::tie(last_out, from_last) = cluster::inproc_pair({"b", "last"}, {"a", "coordinator"});
    chain = std::make_unique<LinkedChain>(*last_part.model, last_part.compute, 1, to_first, from_last,
                                          small_chain());
  }
  // Reads what the first worker got.
  std::pair<MessageHead, std::vector<std::byte>> taken() {
    const auto head = first_in->receive_head(kPatience);
    std::vector<std::byte> body(head->bytes);
    EXPECT_TRUE(first_in->receive_body(body, kPatience).ok());
    return {*head, body};
  }
  void answer(MessageKind kind, uint64_t epoch, uint64_t step, const std::vector<std::byte>& body) {
    const std::span<const std::byte> pieces[] = {body};
    EXPECT_TRUE(
        last_out->send({.kind = kind, .epoch = epoch, .step = step, .bytes = 0}, pieces, kPatience).ok());
  }
  void reset(uint64_t epoch) {
    answer(MessageKind::kControl, epoch, 0, {});
    ASSERT_TRUE(chain->reset(epoch, kPatience).ok());
    EXPECT_EQ(taken().first.kind, MessageKind::kControl);
  }
  LoadedPart last_part{path, model::range_of_pieces(2, 4, kLayers), 1};
  std::shared_ptr<Link> to_first, first_in, last_out, from_last;
  std::unique_ptr<LinkedChain> chain;
};

StepRequest numbered(uint64_t epoch, uint64_t step) {
  StepRequest request = step_of(kGoodRows);
  request.epoch = epoch;
  request.step = step;
  return request;
}

TEST_F(LinkedChainTest, ComputesWhatComesBack) {
  reset(3);
  ASSERT_TRUE(chain->submit(numbered(3, 1)).ok());
  EXPECT_EQ(taken().first.kind, MessageKind::kTokens);
  answer(MessageKind::kActivations, 2, 1, body_of(step_of(kGoodRows), 1));  // stale: dropped
  answer(MessageKind::kActivations, 3, 1, body_of(step_of(kGoodRows), 1));
  const StepResult result = chain->receive(kPatience);
  ASSERT_TRUE(result.status.ok()) << result.status.text();
  EXPECT_EQ(result.step, 1u);
  EXPECT_EQ(result.logits.size(), 320u);
  EXPECT_EQ(chain->stale(), 1u);
}

TEST_F(LinkedChainTest, AStepThatDoesNotComeBackIsATimeoutAndTheChainStaysWhole) {
  reset(1);
  ASSERT_TRUE(chain->submit(numbered(1, 1)).ok());
  EXPECT_EQ(chain->receive(std::chrono::milliseconds(1)).status.code(), Errc::kTimeout);
  taken();
  answer(MessageKind::kActivations, 1, 1, body_of(step_of(kGoodRows), 1));  // too late
  reset(2);
  ASSERT_TRUE(chain->submit(numbered(2, 1)).ok());
  answer(MessageKind::kActivations, 2, 1, body_of(step_of(kGoodRows), 1));
  EXPECT_TRUE(chain->receive(kPatience).status.ok());
  EXPECT_EQ(chain->stale(), 1u);
}

TEST_F(LinkedChainTest, AFailureOfAStageIsTheStepsOwn) {
  reset(1);
  ASSERT_TRUE(chain->submit(numbered(1, 1)).ok());
  std::vector<std::byte> failure;
  write_failure({Errc::kOutOfMemory, "no room"}, failure);
  answer(MessageKind::kResult, 1, 1, failure);
  const StepResult result = chain->receive(kPatience);
  EXPECT_EQ(result.status.code(), Errc::kOutOfMemory);
  taken();
  reset(2);
}

TEST_F(LinkedChainTest, ACloseWakesAReceive) {
  reset(1);
  ASSERT_TRUE(chain->submit(numbered(1, 1)).ok());
  auto waiting = std::async(std::launch::async, [&] { return chain->receive(kPatience).status.code(); });
  chain->close();
  chain->close();
  EXPECT_EQ(waiting.get(), Errc::kCancelled);
}

TEST_F(LinkedChainTest, WhatWasNotAskedForEndsTheChain) {
  auto other_rows = step_of(kGoodRows);
  other_rows.rows[1].token = 7;
  std::vector<std::byte> failure;
  write_failure({Errc::kOutOfMemory, "no room"}, failure);
  struct Case {
    MessageKind kind;
    uint64_t epoch, step;
    std::vector<std::byte> body;
    const char* words;
  };
  const Case kCases[] = {
      {MessageKind::kActivations, 1, 2, body_of(step_of(kGoodRows), 1), "expected step 1"},
      {MessageKind::kActivations, 2, 1, body_of(step_of(kGoodRows), 1), "the chain is at epoch 1"},
      {MessageKind::kActivations, 1, 1, body_of(step_of(kGoodRows), 2), "bytes"},
      {MessageKind::kActivations, 1, 1, body_of(other_rows, 1), "not those that were sent out"},
      {MessageKind::kActivations, 1, 1, std::vector<std::byte>(1 << 20), "expected at most"},
      {MessageKind::kActivations, 1, 1, {}, "0 bytes"},
      {MessageKind::kTokens, 1, 1, body_of(step_of(kGoodRows), 0), "kind 4"},
      {MessageKind::kControl, 1, 1, {}, "nobody asked"},
      {MessageKind::kControl, 1, 0, {}, "expected step 1"},
      {MessageKind::kResult, 1, 1, std::vector<std::byte>(8), "code 0"},
      {MessageKind::kResult, 1, 2, failure, "expected step 1"},
  };
  for (const Case& c : kCases) {
    std::tie(to_first, first_in) = cluster::inproc_pair({"a", "coordinator"}, {"b", "first"});
    std::tie(last_out, from_last) = cluster::inproc_pair({"b", "last"}, {"a", "coordinator"});
    chain = std::make_unique<LinkedChain>(*last_part.model, last_part.compute, 1, to_first, from_last,
                                          small_chain());
    reset(1);
    ASSERT_TRUE(chain->submit(numbered(1, 1)).ok());
    taken();
    answer(c.kind, c.epoch, c.step, c.body);
    const Status status = chain->receive(kPatience).status;
    EXPECT_EQ(status.code(), Errc::kPeerLost);
    EXPECT_THAT(status.text(), HasSubstr(c.words));
    EXPECT_EQ(chain->submit(numbered(1, 2)).code(), Errc::kPeerLost);
    EXPECT_EQ(chain->reset(2, kPatience).code(), Errc::kPeerLost);
    EXPECT_EQ(first_in->receive_head(kPatience).status().code(), Errc::kPeerLost);
  }
}

TEST_F(LinkedChainTest, RefusesStepsThatDoNotFit) {
  reset(1);
  EXPECT_EQ(chain->submit(numbered(2, 1)).code(), Errc::kInvalidArgument);
  StepRequest empty = numbered(1, 1);
  empty.rows.clear();
  EXPECT_EQ(chain->submit(empty).code(), Errc::kInvalidArgument);
  ASSERT_TRUE(chain->submit(numbered(1, 1)).ok());
  ASSERT_TRUE(chain->submit(numbered(1, 2)).ok());
  EXPECT_EQ(chain->submit(numbered(1, 3)).code(), Errc::kInvalidArgument) << "two stages, two steps";
  EXPECT_EQ(chain->info().steps_max, 2u);
}

}  // namespace
}  // namespace butterfly::runtime
