#include "cluster/member/known_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/hex.h"
#include "base/log.h"

namespace butterfly::cluster {
namespace {

constexpr const char* kLinksFile = "links";
constexpr std::string_view kLinksFirstLine = "butterfly links 1";
constexpr size_t kLinksFileMax = 8u << 20;

bool is_figure(double value) { return std::isfinite(value) && value > 0; }

// from to from_address to_address unix_ms rtt bandwidth [bytes seconds]...
bool read_row(const std::string& line, KnownLink& link) {
  std::istringstream words(line);
  if (!(words >> link.from >> link.to >> link.from_address >> link.to_address >> link.unix_ms >>
        link.figures.rtt_s >> link.figures.bandwidth))
    return false;
  for (LinkPoint point; words >> point.bytes;) {
    if (!(words >> point.seconds) || !is_figure(point.seconds)) return false;
    if (link.figures.points.size() == kLinkPointsMax) return false;
    link.figures.points.push_back(point);
  }
  return words.eof() && is_hex(link.from, 64) && is_hex(link.to, 64) && is_figure(link.figures.rtt_s) &&
         is_figure(link.figures.bandwidth);
}

}  // namespace

std::vector<KnownLink> read_known_links(const StateFolder& folder) {
  if (!folder.has(kLinksFile)) return {};
  std::vector<KnownLink> links;
  try {
    std::istringstream in(folder.read(kLinksFile, kLinksFileMax));
    std::string line;
    if (!std::getline(in, line) || line != kLinksFirstLine)
      fail(Errc::kCorrupt, "line 1: expected '{}'", kLinksFirstLine);
    for (size_t number = 2; std::getline(in, line); ++number) {
      if (links.size() == kKnownLinksMax || !read_row(line, links.emplace_back()))
        fail(Errc::kCorrupt, "line {}: expected two keys, two addresses, a time and figures", number);
    }
  } catch (const Error& error) {
    log_warn("{}: {}; links are measured again", (folder.path() / kLinksFile).string(), error.what());
    return {};
  }
  return links;
}

void write_known_links(const StateFolder& folder, std::vector<KnownLink> links) {
  std::ranges::sort(links, std::ranges::greater{}, &KnownLink::unix_ms);
  if (links.size() > kKnownLinksMax) links.resize(kKnownLinksMax);
  std::string text(kLinksFirstLine);
  text += '\n';
  for (const KnownLink& link : links) {
    text += fmt::format("{} {} {} {} {} {} {}", link.from, link.to, link.from_address, link.to_address,
                        link.unix_ms, link.figures.rtt_s, link.figures.bandwidth);
    for (const LinkPoint& point : link.figures.points)
      text += fmt::format(" {} {}", point.bytes, point.seconds);
    text += '\n';
  }
  folder.write(kLinksFile, text);
}

}  // namespace butterfly::cluster
