#include "runtime/chain/resume_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/attention/kv_page.h"

namespace butterfly::runtime {
namespace {

struct ClaimsPrefix {
  uint32_t claims;
  uint32_t limit_ms;
  uint32_t zero[2];
};
struct WireClaim {
  uint32_t page;
  uint16_t count;
  uint8_t kind, in_use;
  Lineage lineage;
};
struct WireStage {
  uint32_t begin, end;
  uint32_t rows_behind[StageCache::kRowPlacesMax];  // 0: none
  uint32_t offer_from, offer_to;                    // layers that could be sent
  uint64_t offer_bytes;                             // 0: none
  uint64_t offer_us;
};
static_assert(sizeof(ClaimsPrefix) == 16 && sizeof(WireClaim) == 40 && sizeof(WireStage) == 40);

constexpr uint32_t kLimitMsMax = 60'000;
constexpr uint64_t kOfferBytesMax = uint64_t{1} << 50, kOfferUsMax = uint64_t{1'000'000} * 86'400;

template <typename T>
void put(std::vector<std::byte>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

void put(std::vector<std::byte>& to, const std::vector<uint8_t>& counts) {
  const auto bytes = std::as_bytes(std::span(counts));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

Status bad_claims(std::string text) { return {Errc::kCorrupt, std::move(text)}; }

size_t claims_bytes(size_t claims, size_t stages, size_t first_layer) {
  return sizeof(ClaimsPrefix) + claims * sizeof(WireClaim) + stages * sizeof(WireStage) +
         claims * (first_layer + stages * StageCache::kRowPlacesMax);
}

// Takes the message apart, front to back; its length was compared before.
class ClaimsReader {
 public:
  explicit ClaimsReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
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
Status claimed_counts(ClaimsReader& reader, const std::vector<PageClaim>& claims,
                      std::vector<uint8_t>& counts) {
  for (const PageClaim& claim : claims) {
    counts.push_back(reader.take<uint8_t>());
    if (counts.back() > claim.count)
      return bad_claims(fmt::format("a stage has {} positions of page {}, {} were asked for", counts.back(),
                                    claim.page, claim.count));
  }
  return {};
}

}  // namespace

size_t resume_bytes_max(const ChainLimits& limits, size_t stages, size_t first_layer) {
  return claims_bytes(limits.pages, stages, first_layer);
}

void write_claims(std::span<const PageClaim> claims, std::vector<std::byte>& to, Duration limit) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  put(to, ClaimsPrefix{static_cast<uint32_t>(claims.size()),
                       static_cast<uint32_t>(std::clamp<int64_t>(ms, 0, kLimitMsMax)),
                       {0, 0}});
  for (const PageClaim& claim : claims)
    put(to, WireClaim{claim.page, static_cast<uint16_t>(claim.count), static_cast<uint8_t>(claim.kind),
                      uint8_t{claim.in_use}, claim.lineage});
}

void write_stage_report(size_t first_layer, const CacheReport& report, std::vector<std::byte>& to) {
  WireStage stage{.begin = static_cast<uint32_t>(first_layer),
                  .end = static_cast<uint32_t>(first_layer + report.layers.size()),
                  .rows_behind = {0, 0},
                  .offer_from = 0,
                  .offer_to = 0,
                  .offer_bytes = 0,
                  .offer_us = 0};
  if (!report.offers.empty() && report.offers.back().bytes > 0) {
    const CacheReport::Offer& offer = report.offers.back();
    stage.offer_from = static_cast<uint32_t>(offer.from);
    stage.offer_to = static_cast<uint32_t>(offer.to);
    stage.offer_bytes = std::min(offer.bytes, kOfferBytesMax);
    stage.offer_us =
        static_cast<uint64_t>(std::clamp(offer.seconds * 1e6, 0.0, static_cast<double>(kOfferUsMax)));
  }
  for (size_t i = 0; i < report.rows.size() && i < StageCache::kRowPlacesMax; ++i)
    stage.rows_behind[i] = static_cast<uint32_t>(report.rows[i].behind);
  put(to, stage);
  for (const auto& layer : report.layers) put(to, layer);
  for (size_t i = 0; i < StageCache::kRowPlacesMax; ++i)
    put(to, i < report.rows.size() ? report.rows[i].filled : std::vector<uint8_t>(report.claims));
}

Status ResumeMessage::read(std::span<const std::byte> bytes, const ChainLimits& limits, size_t stages,
                           size_t first_layer) {
  if (bytes.size() < sizeof(ClaimsPrefix)) return bad_claims(fmt::format("claims of {} bytes", bytes.size()));
  ClaimsReader reader(bytes);
  const auto prefix = reader.take<ClaimsPrefix>();
  if (prefix.claims > limits.pages || prefix.zero[0] != 0 || prefix.zero[1] != 0)
    return bad_claims(fmt::format("{} pages are claimed, there are {}", prefix.claims, limits.pages));
  if (prefix.limit_ms > kLimitMsMax)
    return bad_claims(fmt::format("{} ms for a fetch, at most {} may be", prefix.limit_ms, kLimitMsMax));
  limit = std::chrono::milliseconds(prefix.limit_ms);
  if (const size_t expected = claims_bytes(prefix.claims, stages, first_layer); bytes.size() != expected)
    return bad_claims(
        fmt::format("claims of {} pages behind {} stages and {} layers have {} bytes, expected {}",
                    prefix.claims, stages, first_layer, bytes.size(), expected));
  claims.clear();
  for (size_t i = 0; i < prefix.claims; ++i) {
    const auto claim = reader.take<WireClaim>();
    const auto kind = static_cast<graph::PageKind>(claim.kind);
    if (kind != graph::PageKind::kFull && kind != graph::PageKind::kState)
      return bad_claims(fmt::format("a page of kind {} is claimed", claim.kind));
    const size_t most = kind == graph::PageKind::kState ? 1 : kernels::kKvPage;
    if (claim.page >= limits.pages || claim.count == 0 || claim.count > most)
      return bad_claims(fmt::format("{} positions of page {} are claimed", claim.count, claim.page));
    if (claim.in_use > 1) return bad_claims(fmt::format("a page in use {} times", claim.in_use));
    claims.push_back({claim.page, claim.count, claim.lineage, kind, claim.in_use == 1});
  }
  report = {};
  report.claims = claims.size();
  for (size_t i = 0; i < stages; ++i) {
    const auto stage = reader.take<WireStage>();
    if (stage.begin != report.layers.size() || stage.end < stage.begin || stage.end > first_layer)
      return bad_claims(fmt::format("a stage with layers {} to {} behind {} layers", stage.begin, stage.end,
                                    report.layers.size()));
    if (stage.offer_from > stage.offer_to || stage.offer_bytes > kOfferBytesMax ||
        stage.offer_us > kOfferUsMax ||
        (stage.offer_bytes > 0 && (stage.offer_from < stage.begin || stage.offer_to > stage.end)))
      return bad_claims(fmt::format("an offer of {} bytes for layers {} to {} at a stage with {} to {}",
                                    stage.offer_bytes, stage.offer_from, stage.offer_to, stage.begin,
                                    stage.end));
    report.offers.push_back({.begin = stage.begin,
                             .end = stage.end,
                             .from = stage.offer_from,
                             .to = stage.offer_to,
                             .bytes = stage.offer_bytes,
                             .seconds = static_cast<double>(stage.offer_us) / 1e6});
    for (size_t layer = stage.begin; layer < stage.end; ++layer)
      if (Status status = claimed_counts(reader, claims, report.layers.emplace_back()); !status)
        return status;
    for (const uint32_t behind : stage.rows_behind) {
      CacheReport::Rows rows{behind, {}};
      if (Status status = claimed_counts(reader, claims, rows.filled); !status) return status;
      if (behind == 0) continue;
      if (behind <= stage.begin || behind > stage.end)
        return bad_claims(
            fmt::format("rows behind layer {} at a stage with {} to {}", behind, stage.begin, stage.end));
      report.rows.push_back(std::move(rows));
    }
  }
  if (report.layers.size() != first_layer)
    return bad_claims(
        fmt::format("stages with {} layers before layer {}", report.layers.size(), first_layer));
  return {};
}

}  // namespace butterfly::runtime
