#include "runtime/chain/step_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/rng.h"

namespace butterfly::runtime {
namespace {

using ::testing::HasSubstr;

const ChainLimits kLimits{.rows_max = 8, .sequences = 4, .pages = 16, .dim = 32, .format = &row_formats()[0]};

StepRequest some_request() {
  StepRequest request;
  request.commands = {{KvCommand::Kind::kForget, 2}, {KvCommand::Kind::kPlace, 2, 1, 9}};
  request.rows = {
      {5, 2, 31, RowOutput::kNone}, {-7, 2, 32, RowOutput::kLogits, true, 40}, {6, 0, 1, RowOutput::kHidden}};
  return request;
}

std::vector<std::byte> some_message(size_t stages) {
  std::vector<std::byte> bytes;
  write_header(some_request(), bytes);
  for (size_t i = 0; i < stages; ++i)
    write_times({Duration(i + 1), Duration(20), Duration(300), Duration(4000)}, bytes);
  if (stages > 0)
    for (size_t i = 0; i < 3 * kLimits.format->row_bytes(kLimits.dim); ++i) bytes.push_back(std::byte(i));
  return bytes;
}

TEST(StepMessage, SaysWhatWasWritten) {
  for (size_t stages : {0, 1, 4}) {
    const auto bytes = some_message(stages);
    StepMessage message;
    ASSERT_TRUE(message.read(bytes, kLimits, stages, 0).ok());
    ASSERT_EQ(message.commands.size(), 2u);
    EXPECT_EQ(message.commands[1].kind, KvCommand::Kind::kPlace);
    EXPECT_EQ(message.commands[1].page, 9u);
    ASSERT_EQ(message.rows.size(), 3u);
    EXPECT_EQ(message.rows[1].token, -7);
    EXPECT_EQ(message.rows[1].position, 32u);
    EXPECT_EQ(message.rows[1].candidates, 40u);
    EXPECT_TRUE(message.rows[1].guess && !message.rows[2].guess);
    EXPECT_EQ(message.rows[2].output, RowOutput::kHidden);
    ASSERT_EQ(message.times.size(), stages);
    if (stages > 0) {
      EXPECT_EQ(message.times.back().wait, Duration(stages));
      EXPECT_EQ(message.times.back().wire(), Duration(4020));
    }
    EXPECT_EQ(message.values.size(), stages == 0 ? 0 : 3 * 32 * sizeof(float));
    EXPECT_LE(bytes.size(), kLimits.bytes_max(stages));
    std::vector<std::byte> again;
    write_header(some_request(), again);
    EXPECT_TRUE(std::ranges::equal(message.header, again));
  }
}

TEST(StepMessage, ADecodedTokenOfA2048WideModelTakes8KibAndALittle) {
  StepRequest request;
  request.rows = {{1, 0, 99, RowOutput::kLogits}};
  std::vector<std::byte> bytes;
  write_header(request, bytes);
  EXPECT_EQ(bytes.size(), 32u) << "to the first stage";
  write_times({}, bytes);
  EXPECT_EQ(bytes.size() + row_formats()[0].row_bytes(2048), 32u + 32 + 8192) << "to the second";
}

TEST(StepMessage, LengthsAndNumbersThatDoNotFitAreRefusedInWords) {
  StepMessage message;
  const auto refused = [&](const std::vector<std::byte>& bytes, size_t stages) {
    const Status status = message.read(bytes, kLimits, stages, 0);
    EXPECT_EQ(status.code(), Errc::kCorrupt);
    return status.text();
  };
  const auto good = some_message(1);
  for (size_t size = 0; size < good.size(); ++size)
    refused({good.begin(), good.begin() + static_cast<ptrdiff_t>(size)}, 1);
  auto longer = good;
  longer.push_back({});
  EXPECT_THAT(refused(longer, 1), HasSubstr("expected"));
  EXPECT_THAT(refused(good, 0), HasSubstr("expected"));
  EXPECT_THAT(refused(good, 2), HasSubstr("expected"));
  const auto with = [&](size_t at, uint32_t value) {
    auto bytes = good;
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return bytes;
  };
  EXPECT_THAT(refused(with(0, 0), 1), HasSubstr("0 rows"));
  EXPECT_THAT(refused(with(0, 9), 1), HasSubstr("9 rows, expected 1 to 8"));
  EXPECT_THAT(refused(with(0, UINT32_MAX), 1), HasSubstr("rows"));
  EXPECT_THAT(refused(with(4, UINT32_MAX), 1), HasSubstr("commands"));
  refused(with(8, 1), 1);
  refused(with(12, 1), 1);
  EXPECT_THAT(refused(with(16, 2), 1), HasSubstr("command 2"));
  EXPECT_THAT(refused(with(16 + 2 * 16 + 12, 3), 1), HasSubstr("output 3"));
}

TEST(StepMessage, TimesOfAPeerAreBounded) {
  auto bytes = some_message(1);
  const uint64_t endless = UINT64_MAX;
  std::memcpy(bytes.data() + 16 + 5 * 16, &endless, sizeof endless);
  StepMessage message;
  ASSERT_TRUE(message.read(bytes, kLimits, 1, 0).ok());
  EXPECT_EQ(message.times[0].wait, std::chrono::hours(24));
}

RC_GTEST_PROP(StepMessage, AnyBytesAreReadOrRefused, ()) {
  const auto stages = static_cast<size_t>(*rc::gen::inRange(0, 4));
  auto bytes = some_message(stages);
  const auto changes = *rc::gen::container<std::vector<std::pair<size_t, uint8_t>>>(
      rc::gen::pair(rc::gen::inRange<size_t>(0, 112), rc::gen::arbitrary<uint8_t>()));
  for (const auto& [at, value] : changes)
    if (at < bytes.size()) bytes[at] = std::byte(value);
  if (*rc::gen::arbitrary<bool>()) bytes.resize(*rc::gen::inRange<size_t>(0, bytes.size() + 9));
  StepMessage message;
  if (!message.read(bytes, kLimits, stages, 0)) return;
  RC_ASSERT(message.rows.size() <= kLimits.rows_max);
  RC_ASSERT(message.header.size() + stages * kStageTimesBytes + message.values.size() == bytes.size());
}

TEST(StepFailure, TravelsAsCodeAndPrintableText) {
  std::vector<std::byte> bytes;
  write_failure({Errc::kOutOfMemory, "no room\n" + std::string(600, 'x')}, bytes);
  EXPECT_EQ(bytes.size(), kFailureBytesMax);
  Status failure;
  ASSERT_TRUE(read_failure(bytes, failure).ok());
  EXPECT_EQ(failure.code(), Errc::kOutOfMemory);
  EXPECT_THAT(failure.text(), HasSubstr("no room?x"));
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(read_failure(std::span(bytes).first(size), failure).ok());
  bytes[0] = std::byte(0);
  EXPECT_FALSE(read_failure(bytes, failure).ok()) << "a failure that is none";
  bytes[0] = std::byte(200);
  EXPECT_FALSE(read_failure(bytes, failure).ok());
}

}  // namespace
}  // namespace butterfly::runtime
