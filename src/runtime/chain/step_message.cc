#include "runtime/chain/step_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace butterfly::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "messages are written as memory holds them");

struct WirePrefix {
  uint32_t rows, commands;
  uint32_t fill_begin, fill_end;
};
struct WireCommand {
  uint16_t kind, pages;
  uint32_t sequence, block, page;
};
struct WireRow {
  int32_t token;
  uint32_t sequence, position;
  uint8_t output, guess;
  uint16_t candidates;
};
struct WireTimes {
  uint64_t wait, receive, compute, send;  // nanoseconds
};
struct WireFailure {
  uint32_t code, text_bytes;
};
static_assert(sizeof(WirePrefix) == 16 && sizeof(WireCommand) == 16 && sizeof(WireRow) == 16);
static_assert(sizeof(WireTimes) == kStageTimesBytes);

template <typename T>
T load(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

Status corrupt(std::string text) { return {Errc::kCorrupt, std::move(text)}; }

// A day is more than any step takes; a peer that says more is not to be added up.
Duration plausible(uint64_t nanoseconds) {
  constexpr uint64_t kDay = uint64_t{86'400} * 1'000'000'000;
  return Duration(static_cast<int64_t>(std::min(nanoseconds, kDay)));
}

uint64_t wire_ns(Duration duration) { return static_cast<uint64_t>(std::max<int64_t>(0, duration.count())); }

}  // namespace

size_t ChainLimits::bytes_max(size_t stages) const {
  const size_t values = stages == 0 ? 0 : format->row_bytes(dim);
  return sizeof(WirePrefix) + commands_max() * sizeof(WireCommand) + rows_max * (sizeof(WireRow) + values) +
         stages * sizeof(WireTimes);
}

ChainLimits chain_limits(const ChainInfo& info, const RowFormat& format) {
  return {.rows_max = info.rows_max,
          .sequences = info.sequences,
          .pages = info.pages + info.window_pages + info.state_pages,
          .dim = info.row_cols,
          .layers = info.layers,
          .format = &format};
}

Status StepMessage::read(std::span<const std::byte> bytes, const ChainLimits& limits, size_t stages,
                         size_t first_layer) {
  if (bytes.size() < sizeof(WirePrefix)) return corrupt(fmt::format("a step of {} bytes", bytes.size()));
  const auto prefix = load<WirePrefix>(bytes, 0);
  if (prefix.rows == 0 || prefix.rows > limits.rows_max)
    return corrupt(fmt::format("a step of {} rows, expected 1 to {}", prefix.rows, limits.rows_max));
  if (prefix.commands > limits.commands_max())
    return corrupt(fmt::format("a step of {} cache commands, expected at most {}", prefix.commands,
                               limits.commands_max()));
  fill = {prefix.fill_begin, prefix.fill_end};
  if (fill != LayerSpan{} && (fill.begin >= fill.end || fill.end > limits.layers))
    return corrupt(fmt::format("rows through layers {} to {} of {}", fill.begin, fill.end, limits.layers));
  const bool brings_values =
      stages > 0 && (fill.empty() || (fill.begin <= first_layer && first_layer < fill.end));
  const size_t header_bytes =
      sizeof prefix + prefix.commands * sizeof(WireCommand) + prefix.rows * sizeof(WireRow);
  const size_t times_bytes = stages * sizeof(WireTimes);
  const size_t value_bytes = brings_values ? prefix.rows * limits.format->row_bytes(limits.dim) : 0;
  if (bytes.size() != header_bytes + times_bytes + value_bytes)
    return corrupt(fmt::format("a step of {} rows and {} commands has {} bytes, expected {}", prefix.rows,
                               prefix.commands, bytes.size(), header_bytes + times_bytes + value_bytes));
  header = bytes.first(header_bytes);
  values = bytes.last(value_bytes);

  size_t at = sizeof prefix;
  commands.clear();
  for (size_t i = 0; i < prefix.commands; ++i, at += sizeof(WireCommand)) {
    const auto c = load<WireCommand>(bytes, at);
    if (c.kind > static_cast<uint32_t>(KvCommand::Kind::kPlace))
      return corrupt(fmt::format("cache command {} does not exist", c.kind));
    if (c.pages >= graph::kPageKinds) return corrupt(fmt::format("pages of kind {} do not exist", c.pages));
    commands.push_back({static_cast<KvCommand::Kind>(c.kind), c.sequence, c.block, c.page,
                        static_cast<graph::PageKind>(c.pages)});
  }
  rows.clear();
  for (size_t i = 0; i < prefix.rows; ++i, at += sizeof(WireRow)) {
    const auto r = load<WireRow>(bytes, at);
    if (r.output > static_cast<uint32_t>(RowOutput::kHidden))
      return corrupt(fmt::format("output {} does not exist", r.output));
    if (r.guess > 1) return corrupt(fmt::format("a row that is guessed {} times", r.guess));
    const auto output = static_cast<RowOutput>(r.output);
    if (r.candidates > (output == RowOutput::kLogits ? kCandidatesMax : 0))
      return corrupt(fmt::format("{} candidates of output {}, expected at most {} of logits", r.candidates,
                                 r.output, kCandidatesMax));
    rows.push_back({r.token, r.sequence, r.position, output, r.guess == 1, r.candidates});
  }
  times.clear();
  for (size_t i = 0; i < stages; ++i, at += sizeof(WireTimes)) {
    const auto t = load<WireTimes>(bytes, at);
    times.push_back({plausible(t.wait), plausible(t.receive), plausible(t.compute), plausible(t.send)});
  }
  return {};
}

void write_header(const StepRequest& request, std::vector<std::byte>& to) {
  append(to,
         WirePrefix{static_cast<uint32_t>(request.rows.size()),
                    static_cast<uint32_t>(request.commands.size()), request.fill.begin, request.fill.end});
  for (const KvCommand& c : request.commands)
    append(to, WireCommand{static_cast<uint16_t>(c.kind), static_cast<uint16_t>(c.pages), c.sequence, c.block,
                           c.page});
  for (const StepRow& r : request.rows)
    append(to,
           WireRow{r.token, r.sequence, r.position, static_cast<uint8_t>(r.output), r.guess, r.candidates});
}

void write_times(const StageTimes& times, std::vector<std::byte>& to) {
  append(to,
         WireTimes{wire_ns(times.wait), wire_ns(times.receive), wire_ns(times.compute), wire_ns(times.send)});
}

void write_failure(const Status& status, std::vector<std::byte>& to) {
  BF_CHECK(!status.ok()) << "a failure without an error";
  const std::string text = status.text().substr(0, kFailureBytesMax - sizeof(WireFailure));
  append(to, WireFailure{static_cast<uint32_t>(status.code()), static_cast<uint32_t>(text.size())});
  const auto bytes = std::as_bytes(std::span(text));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

Status read_failure(std::span<const std::byte> bytes, Status& failure) {
  if (bytes.size() < sizeof(WireFailure) || bytes.size() > kFailureBytesMax)
    return corrupt(fmt::format("a failure of {} bytes", bytes.size()));
  const auto prefix = load<WireFailure>(bytes, 0);
  if (prefix.text_bytes != bytes.size() - sizeof prefix)
    return corrupt(fmt::format("a failure with {} bytes of text, {} came", prefix.text_bytes,
                               bytes.size() - sizeof prefix));
  if (prefix.code == 0 || prefix.code > static_cast<uint32_t>(Errc::kCancelled))
    return corrupt(fmt::format("a failure with code {}", prefix.code));
  std::string text(reinterpret_cast<const char*>(bytes.data()) + sizeof prefix, prefix.text_bytes);
  // It goes into logs and answers.
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  failure = Status(static_cast<Errc>(prefix.code), std::move(text));
  return {};
}

}  // namespace butterfly::runtime
