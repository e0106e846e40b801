#include "runtime/engine/move_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "runtime/engine/refill.h"

namespace butterfly::runtime {
namespace {

constexpr double kRowLayerSeconds = 100e-6;  // until a step was timed
constexpr Duration kMoveLeast = std::chrono::seconds(1), kMoveMost = std::chrono::seconds(30);

bool is_state(const PageClaim& claim) { return claim.kind == graph::PageKind::kState; }

// Positions times layers that refills compute, by layer.
std::vector<uint64_t> rows_by_layer(CacheReport report, std::span<const PageClaim> claims) {
  std::vector<uint64_t> rows(report.layers.size());
  // Without its state a layer reads all of a text again.
  for (auto& layer : report.layers)
    for (size_t i = 0; i < claims.size(); ++i)
      if (claims[i].in_use && is_state(claims[i]) && layer[i] == 0) {
        for (size_t j = 0; j < claims.size(); ++j)
          if (!is_state(claims[j])) layer[j] = 0;
        break;
      }
  for (size_t i = 0; i < claims.size(); ++i) {
    if (!claims[i].in_use || is_state(claims[i])) continue;
    const PageRefill refill = refill_of(report, i, claims[i].count);
    for (const LayerSpan& span : refill.spans)
      for (size_t layer = span.begin; layer < span.end; ++layer) rows[layer] += refill.count - refill.first;
  }
  return rows;
}

uint64_t total(const std::vector<uint64_t>& rows) {
  uint64_t sum = 0;
  for (const uint64_t count : rows) sum += count;
  return sum;
}

// Of the stage with most of them.
uint64_t most(const std::vector<uint64_t>& rows, const CacheReport& report) {
  uint64_t found = 0;
  for (const CacheReport::Offer& stage : report.offers) {
    uint64_t sum = 0;
    for (size_t layer = stage.begin; layer < stage.end && layer < rows.size(); ++layer) sum += rows[layer];
    found = std::max(found, sum);
  }
  return found;
}

CacheReport with_offers_taken(CacheReport report, std::span<const PageClaim> claims) {
  for (const CacheReport::Offer& offer : report.offers)
    for (size_t layer = offer.from; offer.bytes > 0 && layer < offer.to && layer < report.layers.size();
         ++layer)
      for (size_t i = 0; i < claims.size(); ++i)
        if (claims[i].in_use) report.layers[layer][i] = static_cast<uint8_t>(claims[i].count);
  return report;
}

uint64_t offered_bytes(const CacheReport& report) {
  uint64_t bytes = 0;
  for (const CacheReport::Offer& offer : report.offers) bytes += offer.bytes;
  return bytes;
}

// Positions that layers have of what is in use.
uint64_t held_rows(const CacheReport& report, std::span<const PageClaim> claims) {
  uint64_t rows = 0;
  for (const auto& layer : report.layers)
    for (size_t i = 0; i < claims.size(); ++i)
      if (claims[i].in_use && !is_state(claims[i])) rows += layer[i];
  return rows;
}

}  // namespace

MoveChoice choose_move(const CacheReport& report, std::span<const PageClaim> claims, double row_layer_s) {
  MoveChoice choice;
  choice.bytes = offered_bytes(report);
  choice.offered = choice.bytes > 0;
  if (!choice.offered) return choice;
  const double each = row_layer_s > 0 ? row_layer_s : kRowLayerSeconds;
  const std::vector<uint64_t> now = rows_by_layer(report, claims);
  const CacheReport after = with_offers_taken(report, claims);
  for (const CacheReport::Offer& offer : report.offers) choice.send_s += offer.bytes > 0 ? offer.seconds : 0;
  choice.row_layers = total(now);
  choice.read_s = each * static_cast<double>(most(now, report));
  choice.rest_s = each * static_cast<double>(most(rows_by_layer(after, claims), report));
  for (const PageClaim& claim : claims)
    if (claim.in_use && !is_state(claim)) choice.rows += claim.count;
  choice.send = choice.send_s + choice.rest_s < choice.read_s;
  return choice;
}

Duration move_limit(const MoveChoice& choice) {
  const double worth = (choice.read_s - choice.rest_s) / 2;
  const double seconds = std::clamp(std::max(2 * choice.send_s, worth), 0.0, 3600.0);
  return std::min(kMoveLeast + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)),
                  kMoveMost);
}

std::vector<PageClaim> claims_in_use(std::span<const PageClaim> claims) {
  std::vector<PageClaim> in_use;
  std::ranges::copy_if(claims, std::back_inserter(in_use), &PageClaim::in_use);
  return in_use;
}

PageMove outcome_of(const MoveChoice& choice, const CacheReport& before, const CacheReport& after,
                    std::span<const PageClaim> claims) {
  PageMove move{.offered = choice.offered, .sent = choice.send};
  const uint64_t left = offered_bytes(after), had = held_rows(before, claims), has = held_rows(after, claims);
  move.bytes = choice.bytes - std::min(left, choice.bytes);
  move.row_layers = has - std::min(had, has);
  return move;
}

std::string to_string(const MoveChoice& choice) {
  return fmt::format(
      "{} of {} positions moved with their layers: {:.3f} s to send and {:.3f} s to compute the "
      "rest, {:.3f} s to compute all ({} rows x layers): {}",
      format_bytes(choice.bytes), choice.rows, choice.send_s, choice.rest_s, choice.read_s, choice.row_layers,
      choice.send ? "sent" : "computed again");
}

}  // namespace butterfly::runtime
