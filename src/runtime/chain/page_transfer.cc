#include "runtime/chain/page_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/chain/resume_message.h"

namespace butterfly::runtime {
namespace {

using cluster::Link;
using cluster::MessageHead;
using cluster::MessageKind;

constexpr Duration kIdleMax = std::chrono::seconds(30);  // without a request the link is closed
constexpr Duration kSendMax = std::chrono::seconds(30);

struct RequestPrefix {
  Sha256 model;
  uint32_t begin, end;
  uint64_t zero[3];
};
struct PagePrefix {
  uint32_t here;  // 0 or 1
  uint32_t names;
  uint64_t check;  // of names and bytes
};
static_assert(sizeof(RequestPrefix) == 64 && sizeof(PagePrefix) == 16);
constexpr size_t kClaimBytes = 40, kClaimsPrefix = 16;
constexpr size_t kRequestBytesMax = sizeof(RequestPrefix) + kClaimsPrefix + kRequestClaims * kClaimBytes;

Status corrupt(const Link& link, const std::string& what) {
  return {Errc::kCorrupt, fmt::format("[pages] {}: {}", link.peer().name, what)};
}

// TLS keeps bytes whole on their way; this is for what happens to them at either end.
uint64_t check_of(std::span<const Lineage> names, std::span<const std::byte> bytes) {
  std::array<Sha256, 2> parts = {sha256(std::as_bytes(names)), sha256(bytes)};
  const Sha256 both = sha256(std::as_bytes(std::span(parts)));
  uint64_t check;
  std::memcpy(&check, both.data(), sizeof check);
  return check;
}

std::vector<std::byte> request_bytes(const LayersOf& layers, std::span<const PageClaim> claims) {
  const RequestPrefix prefix{
      layers.model, static_cast<uint32_t>(layers.begin), static_cast<uint32_t>(layers.end), {0, 0, 0}};
  std::vector<std::byte> bytes(sizeof prefix);
  std::memcpy(bytes.data(), &prefix, sizeof prefix);
  write_claims(claims, bytes);
  return bytes;
}

Status send_request(Link& link, uint64_t epoch, uint64_t number, const LayersOf& layers,
                    std::span<const PageClaim> claims, Duration timeout) {
  const std::vector<std::byte> bytes = request_bytes(layers, claims);
  const std::span<const std::byte> pieces[] = {bytes};
  return link.send({.kind = MessageKind::kCache, .epoch = epoch, .step = number, .bytes = 0}, pieces,
                   timeout);
}

// One claimed page through the layers, or that it is not here.
Status send_page(Link& link, const MessageHead& asked, const StageCache* cache, const LayersOf& layers,
                 const PageClaim& claim, std::vector<std::byte>& bytes) {
  bool here = cache != nullptr;
  for (size_t layer = layers.begin; here && layer < layers.end; ++layer) here = cache->has(claim, layer);
  bytes.clear();
  std::span<const Lineage> names;
  if (here) {
    names = cache->names(claim);
    for (size_t layer = layers.begin; layer < layers.end; ++layer) {
      // A state has pages of one kind, positions of another; a layer keeps one of them.
      if (claim.page >= cache->room().of(claim.kind)) continue;
      const auto page = cache->memory().layer_page(layer, claim.kind, claim.page);
      bytes.insert(bytes.end(), page.begin(), page.end());
    }
  }
  const PagePrefix prefix{uint32_t{here}, static_cast<uint32_t>(names.size()), check_of(names, bytes)};
  const MessageHead head{.kind = MessageKind::kCache, .epoch = asked.epoch, .step = asked.step, .bytes = 0};
  const std::span<const std::byte> front[] = {std::as_bytes(std::span(&prefix, 1)), std::as_bytes(names)};
  if (Status status = link.send(head, front, kSendMax); !status) return status;
  for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    const std::span<const std::byte> piece[] = {
        std::span(bytes).subspan(at, std::min(kPieceBytes, bytes.size() - at))};
    if (Status status = link.send(head, piece, kSendMax); !status) return status;
  }
  return {};
}

Status serve_request(Link& link, PageStore& store, std::vector<std::byte>& body,
                     std::vector<std::byte>& bytes) {
  const auto head = link.receive_head(kIdleMax);
  if (!head) return head.status();
  if (head->kind != MessageKind::kCache || head->bytes < sizeof(RequestPrefix) + kClaimsPrefix ||
      head->bytes > kRequestBytesMax)
    return corrupt(link, fmt::format("sent kind {} with {} bytes, expected a request of {} to {}",
                                     static_cast<unsigned>(head->kind), head->bytes,
                                     sizeof(RequestPrefix) + kClaimsPrefix, kRequestBytesMax));
  body.resize(head->bytes);
  if (Status status = link.receive_body(body, kSendMax); !status) return status;
  RequestPrefix prefix;
  std::memcpy(&prefix, body.data(), sizeof prefix);
  const LayersOf layers{prefix.model, prefix.begin, prefix.end};
  if (prefix.begin >= prefix.end || prefix.zero[0] != 0 || prefix.zero[1] != 0 || prefix.zero[2] != 0)
    return corrupt(link, fmt::format("asked for layers {} to {}", prefix.begin, prefix.end));
  ResumeMessage asked;
  ChainLimits any;  // which pages there are is the cache's business
  any.pages = UINT32_MAX;
  if (Status status = asked.read(std::span(body).subspan(sizeof prefix), any, 0, 0); !status)
    return corrupt(link, status.text());
  if (asked.claims.empty()) {
    store.done(layers);
    return {};
  }
  const std::shared_ptr<const StageCache> found = store.find(layers);
  const bool covers = found != nullptr && found->begin() <= layers.begin && found->end() >= layers.end;
  for (const PageClaim& claim : asked.claims)
    if (Status status = send_page(link, *head, covers ? found.get() : nullptr, layers, claim, bytes); !status)
      return status;
  return {};
}

// The next message of an answer, which must be so long or as long as the other.
Result<size_t> receive_part(Link& link, uint64_t epoch, uint64_t number, size_t bytes, size_t or_bytes,
                            std::vector<std::byte>& into, const Deadline& deadline) {
  const auto head = link.receive_head(deadline.remaining());
  if (!head) return head.status();
  if (head->kind != MessageKind::kCache || head->epoch != epoch || head->step != number ||
      (head->bytes != bytes && head->bytes != or_bytes))
    return corrupt(link, fmt::format("sent kind {}, epoch {}, number {}, {} bytes; expected epoch {}, number "
                                     "{}, {} or {} bytes",
                                     static_cast<unsigned>(head->kind), head->epoch, head->step, head->bytes,
                                     epoch, number, bytes, or_bytes));
  into.resize(head->bytes);
  if (Status status = link.receive_body(into, deadline.remaining()); !status) return status;
  return into.size();
}

// The answer to one claim.
class PageReceiver {
 public:
  PageReceiver(Link& link, uint64_t epoch, const LayersOf& layers, StageCache& into, const Deadline& deadline)
      : link_(link), epoch_(epoch), layers_(layers), cache_(into), deadline_(deadline) {}

  Status receive(uint64_t number, const PageClaim& claim, PagesCame& came) {
    const size_t names_most = claim.kind == graph::PageKind::kState ? 0 : claim.count;
    const size_t with_names = sizeof(PagePrefix) + names_most * sizeof(Lineage);
    const auto size = receive_part(link_, epoch_, number, with_names, sizeof(PagePrefix), part_, deadline_);
    if (!size) return size.status();
    PagePrefix prefix;
    std::memcpy(&prefix, part_.data(), sizeof prefix);
    if (prefix.here > 1 || prefix.names != (prefix.here == 1 ? names_most : 0) ||
        part_.size() != sizeof prefix + prefix.names * sizeof(Lineage))
      return corrupt(link_, fmt::format("page {}: here {}, {} names", claim.page, prefix.here, prefix.names));
    if (prefix.here == 0) return {};
    names_.resize(prefix.names);
    std::memcpy(names_.data(), part_.data() + sizeof prefix, names_.size() * sizeof(Lineage));
    page_.clear();
    for (size_t left = page_bytes(cache_, claim, layers_.begin, layers_.end); left > 0;
         left -= part_.size()) {
      const size_t bytes = std::min(left, kPieceBytes);
      if (const auto got = receive_part(link_, epoch_, number, bytes, bytes, part_, deadline_); !got)
        return got.status();
      page_.insert(page_.end(), part_.begin(), part_.end());
    }
    if (check_of(names_, page_) != prefix.check)
      return corrupt(link_, fmt::format("page {}: its bytes are not those that were checked", claim.page));
    if (!cache_.adopt_names(claim, names_))
      return corrupt(link_, fmt::format("page {}: the names are not those of the claim", claim.page));
    write(claim);
    ++came.pages;
    came.bytes += page_.size();
    return {};
  }

 private:
  void write(const PageClaim& claim) {
    std::span<const std::byte> from = page_;
    for (size_t layer = layers_.begin; layer < layers_.end; ++layer) {
      const auto to = claim.page < cache_.room().of(claim.kind)
                          ? cache_.memory().layer_page(layer, claim.kind, claim.page)
                          : std::span<std::byte>();
      if (!cache_.has(claim, layer)) {
        std::ranges::copy(from.first(to.size()), to.begin());
        cache_.adopt(claim, layer);
      }
      from = from.subspan(to.size());
    }
  }

  Link& link_;
  const uint64_t epoch_;
  const LayersOf& layers_;
  StageCache& cache_;
  const Deadline& deadline_;
  std::vector<std::byte> part_, page_;
  std::vector<Lineage> names_;
};

}  // namespace

size_t page_bytes(const StageCache& cache, const PageClaim& claim, size_t begin, size_t end) {
  size_t bytes = 0;
  for (size_t layer = begin; layer < end && claim.page < cache.room().of(claim.kind); ++layer)
    bytes += cache.memory().layer_page(layer, claim.kind, claim.page).size();
  return bytes;
}

Status serve_pages(Link& link, PageStore& store) {
  std::vector<std::byte> body, bytes;
  for (;;) {
    Status status = serve_request(link, store, body, bytes);
    if (status) continue;
    link.close();
    return status;
  }
}

Status receive_pages(Link& link, uint64_t epoch, const LayersOf& layers, std::span<const PageClaim> claims,
                     StageCache& into, const Deadline& deadline, PagesCame& came) {
  std::vector<PageClaim> lacking;
  for (const PageClaim& claim : claims) {
    bool has = true;
    for (size_t layer = layers.begin; has && layer < layers.end; ++layer) has = into.has(claim, layer);
    if (!has) lacking.push_back(claim);
  }
  PageReceiver receiver(link, epoch, layers, into, deadline);
  // One request ahead, so that the link is never idle.
  const auto part = [&](size_t index) {
    const size_t at = index * kRequestClaims;
    return std::span(lacking).subspan(at, std::min(kRequestClaims, lacking.size() - at));
  };
  const size_t requests = (lacking.size() + kRequestClaims - 1) / kRequestClaims;
  for (size_t i = 0; i <= requests; ++i) {
    if (i < requests)
      if (Status status = send_request(link, epoch, i + 1, layers, part(i), deadline.remaining()); !status)
        return status;
    if (i == 0) continue;
    for (const PageClaim& claim : part(i - 1))
      if (Status status = receiver.receive(i, claim, came); !status) return status;
  }
  return {};
}

Status send_done(Link& link, uint64_t epoch, const LayersOf& layers, Duration timeout) {
  return send_request(link, epoch, 0, layers, {}, timeout);
}

}  // namespace butterfly::runtime
