#include "runtime/chain/resume_message.h"

#include <fmt/format.h>

#include <cstring>

#include "kernels/attention/kv_page.h"

namespace butterfly::runtime {
namespace {

struct WirePrefix {
  uint32_t claims;
  uint32_t zero[3];
};
struct WireClaim {
  uint32_t page, count;
  Lineage lineage;
};
struct WireStage {
  uint32_t begin, end;
  uint32_t rows_behind[StageCache::kRowPlacesMax];  // 0: none
};
static_assert(sizeof(WirePrefix) == 16 && sizeof(WireClaim) == 40 && sizeof(WireStage) == 16);

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

void append(std::vector<std::byte>& to, const std::vector<uint8_t>& counts) {
  const auto bytes = std::as_bytes(std::span(counts));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

Status corrupt(std::string text) { return {Errc::kCorrupt, std::move(text)}; }

size_t bytes_of(size_t claims, size_t stages, size_t first_layer) {
  return sizeof(WirePrefix) + claims * sizeof(WireClaim) + stages * sizeof(WireStage) +
         claims * (first_layer + stages * StageCache::kRowPlacesMax);
}

// Takes the message apart, front to back; its length was compared before.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const std::byte> take(size_t count) {
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
};

// A byte for each claim, at most as much as was claimed.
Status read_counts(Reader& reader, const std::vector<PageClaim>& claims, std::vector<uint8_t>& counts) {
  for (const PageClaim& claim : claims) {
    counts.push_back(reader.take<uint8_t>());
    if (counts.back() > claim.count)
      return corrupt(fmt::format("a stage has {} positions of page {}, {} were asked for", counts.back(),
                                 claim.page, claim.count));
  }
  return {};
}

}  // namespace

size_t resume_bytes_max(const ChainLimits& limits, size_t stages, size_t first_layer) {
  return bytes_of(limits.pages, stages, first_layer);
}

void write_claims(std::span<const PageClaim> claims, std::vector<std::byte>& to) {
  append(to, WirePrefix{static_cast<uint32_t>(claims.size()), {0, 0, 0}});
  for (const PageClaim& claim : claims) append(to, WireClaim{claim.page, claim.count, claim.lineage});
}

void write_stage_report(size_t first_layer, const CacheReport& report, std::vector<std::byte>& to) {
  WireStage stage{
      static_cast<uint32_t>(first_layer), static_cast<uint32_t>(first_layer + report.layers.size()), {0, 0}};
  for (size_t i = 0; i < report.rows.size() && i < StageCache::kRowPlacesMax; ++i)
    stage.rows_behind[i] = static_cast<uint32_t>(report.rows[i].behind);
  append(to, stage);
  for (const auto& layer : report.layers) append(to, layer);
  for (size_t i = 0; i < StageCache::kRowPlacesMax; ++i)
    append(to, i < report.rows.size() ? report.rows[i].filled : std::vector<uint8_t>(report.claims));
}

Status ResumeMessage::read(std::span<const std::byte> bytes, const ChainLimits& limits, size_t stages,
                           size_t first_layer) {
  if (bytes.size() < sizeof(WirePrefix)) return corrupt(fmt::format("claims of {} bytes", bytes.size()));
  Reader reader(bytes);
  const auto prefix = reader.take<WirePrefix>();
  if (prefix.claims > limits.pages || prefix.zero[0] != 0 || prefix.zero[1] != 0 || prefix.zero[2] != 0)
    return corrupt(fmt::format("{} pages are claimed, there are {}", prefix.claims, limits.pages));
  if (const size_t expected = bytes_of(prefix.claims, stages, first_layer); bytes.size() != expected)
    return corrupt(fmt::format("claims of {} pages behind {} stages and {} layers have {} bytes, expected {}",
                               prefix.claims, stages, first_layer, bytes.size(), expected));
  claims.clear();
  for (size_t i = 0; i < prefix.claims; ++i) {
    const auto claim = reader.take<WireClaim>();
    if (claim.page >= limits.pages || claim.count == 0 || claim.count > kernels::kKvPage)
      return corrupt(fmt::format("{} positions of page {} are claimed", claim.count, claim.page));
    claims.push_back({claim.page, claim.count, claim.lineage});
  }
  report = {.claims = claims.size(), .layers = {}, .rows = {}};
  for (size_t i = 0; i < stages; ++i) {
    const auto stage = reader.take<WireStage>();
    if (stage.begin != report.layers.size() || stage.end < stage.begin || stage.end > first_layer)
      return corrupt(fmt::format("a stage with layers {} to {} behind {} layers", stage.begin, stage.end,
                                 report.layers.size()));
    for (size_t layer = stage.begin; layer < stage.end; ++layer)
      if (Status status = read_counts(reader, claims, report.layers.emplace_back()); !status) return status;
    for (const uint32_t behind : stage.rows_behind) {
      CacheReport::Rows rows{behind, {}};
      if (Status status = read_counts(reader, claims, rows.filled); !status) return status;
      if (behind == 0) continue;
      if (behind <= stage.begin || behind > stage.end)
        return corrupt(
            fmt::format("rows behind layer {} at a stage with {} to {}", behind, stage.begin, stage.end));
      report.rows.push_back(std::move(rows));
    }
  }
  if (report.layers.size() != first_layer)
    return corrupt(fmt::format("stages with {} layers before layer {}", report.layers.size(), first_layer));
  return {};
}

}  // namespace butterfly::runtime
