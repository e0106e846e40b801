// What stages still have of the texts' pages, asked along the chain when it takes the place of another: one
// message that grows.
//
//   prefix   16 bytes: number of claims, milliseconds for a fetch
//   claims   40 bytes each: page, positions, kind of page, whether it is in use, name of the last position
//   stages   for each that it has passed: 40 bytes (its layers, where it kept rows, what other nodes could
//            send it), then for every claim a byte for each layer and for each of two places with rows
//
// An order to fetch what moved follows, the same message without stages, which each passes on before it
// obeys; without claims nothing shall be sent. With some the first question comes once more.
//
// A stage knows its place and its first layer, so it knows how long the message must be once it has seen the
// prefix.
#pragma once
#include "runtime/chain/step_message.h"
#include "runtime/engine/stage_cache.h"

namespace butterfly::runtime {

// Of their heads; a reset has 0.
inline constexpr uint64_t kResumeStep = 1;                  // a new epoch begins
inline constexpr uint64_t kFetchStep = 2, kReportStep = 3;  // of the same, before its first step
inline constexpr bool asks_for_pages(uint64_t step) { return step >= kResumeStep && step <= kReportStep; }

size_t resume_bytes_max(const ChainLimits& limits, size_t stages, size_t first_layer);

void write_claims(std::span<const PageClaim> claims, std::vector<std::byte>& to, Duration limit = {});
// What the stage whose layers begin here has.
void write_stage_report(size_t first_layer, const CacheReport& report, std::vector<std::byte>& to);

struct ResumeMessage {
  std::vector<PageClaim> claims;
  Duration limit{};    // of an order to fetch
  CacheReport report;  // of the stages before

  // kCorrupt: the length does not fit the numbers, or stages do not follow one another.
  Status read(std::span<const std::byte> bytes, const ChainLimits& limits, size_t stages, size_t first_layer);
};

}  // namespace butterfly::runtime
