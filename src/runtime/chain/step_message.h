// A step on its way along the chain of stages: one message per hop.
//
//   prefix     16 bytes: number of rows, number of cache commands, the layers of a fill (0, 0: all)
//   commands   16 bytes each
//   rows       16 bytes each
//   times      32 bytes for each stage that the step has passed
//   values     rows x row_bytes, behind the first stage; of a fill where it is in the middle of its layers
//
// All numbers are little-endian. A stage knows its limits and its place, so it knows how long a message may
// be before it reads it, and how long it must be once it has seen the prefix.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cluster/transport/link.h"
#include "runtime/chain/row_format.h"
#include "runtime/engine/chain.h"

namespace butterfly::runtime {

// Where a step's time went on one node. Wire is receive and send: handing bytes over and turning them into
// rows; the time that they are under way between two machines no stage can know; ChainStep::between() has it.
struct StageTimes {
  Duration wait{};     // for the step to arrive
  Duration receive{};  // from its first byte to checked rows
  Duration compute{};
  Duration send{};  // of the step before: this one's is not over while it is written down

  Duration wire() const { return receive + send; }
  StageTimes& operator+=(const StageTimes& other) {
    wait += other.wait;
    receive += other.receive;
    compute += other.compute;
    send += other.send;
    return *this;
  }
};

// What every stage of a chain agrees on. The coordinator tells it to all of them with the plan.
struct ChainLimits {
  size_t rows_max = 512;  // per step
  size_t sequences = 16;
  size_t pages = 0;   // of the cache, all kinds together
  size_t dim = 0;     // of rows between stages
  size_t layers = 0;  // of the model
  const RowFormat* format = &row_formats()[0];

  // More than a scheduler sends in one step: every sequence forgotten and placed whole, twice.
  size_t commands_max() const { return 2 * sequences * (pages + 1); }
  // Of a message that has passed `stages` stages.
  size_t bytes_max(size_t stages) const;
};
ChainLimits chain_limits(const ChainInfo& info, const RowFormat& format);

// What a message says, read from its bytes. Reused from step to step.
struct StepMessage {
  std::vector<KvCommand> commands;
  std::vector<StepRow> rows;
  LayerSpan fill;
  std::vector<StageTimes> times;      // of the stages before, first to last
  std::span<const std::byte> header;  // prefix, commands and rows as they came: a stage sends them on
  std::span<const std::byte> values;  // borrowed from the bytes, as `header` is

  // kCorrupt: the length does not fit the numbers, the numbers the limits, or a field is not what it may be.
  // Whether rows make sense to the cache is for the stage to say. `first_layer`: of the stage that reads.
  Status read(std::span<const std::byte> bytes, const ChainLimits& limits, size_t stages, size_t first_layer);
};

// Prefix, commands and rows.
void write_header(const StepRequest& request, std::vector<std::byte>& to);
void write_times(const StageTimes& times, std::vector<std::byte>& to);
inline constexpr size_t kStageTimesBytes = 32;

// A stage could not compute a step: the code and the first part of the text, as the body of a kResult that
// passes the later stages as it is.
inline constexpr size_t kFailureBytesMax = 8 + 512;
void write_failure(const Status& status, std::vector<std::byte>& to);
// kCorrupt if the bytes are none.
Status read_failure(std::span<const std::byte> bytes, Status& failure);

}  // namespace butterfly::runtime
