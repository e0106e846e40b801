// How every stage of a chain runs a model, as text that travels with the plan.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/chain/chain_options.h"

namespace butterfly::runtime {

// An adapter that every stage adds to its layers: the hash of its files, and how strongly it counts.
struct StageAdapter {
  std::string id;  // 64 hexadecimal digits
  float scale = 1;
  friend bool operator==(const StageAdapter&, const StageAdapter&) = default;
};

// Stages with unequal settings could not work together, so one text is all they go by.
struct StageSettings {
  size_t context = 0;     // positions of one text: some models turn by other angles in long ones
  size_t positions = 0;   // of the key/value cache, over all texts
  size_t sequences = 16;  // texts at once
  size_t rows_max = 512;  // per step
  // Rows that a stage sent on are kept up to so many bytes, for the next one to begin with should its stage
  // be lost. 0: nothing is kept when the plan changes, and all texts are read again.
  size_t kept_bytes = 64 << 20;
  static constexpr size_t kKeptBytesMax = size_t{1} << 40;
  DType kv_type = DType::kF16;
  std::string wire = "f32";  // of rows between stages
  std::vector<StageAdapter> adapters = {};
  static constexpr size_t kAdaptersMax = 8;

  std::string text() const;
  // From a peer: kCorrupt, in words, for anything that text() does not write.
  static Result<StageSettings> parse(const std::string& text);

  ChainOptions chain_options() const;
  friend bool operator==(const StageSettings&, const StageSettings&) = default;
};

}  // namespace butterfly::runtime
