#include "cluster/weights/weight_server.h"

#include <fmt/format.h>

#include "base/log.h"
#include "cluster/transport/message.h"
#include "cluster/weights/weight_request.h"

namespace butterfly::cluster {
namespace {

std::vector<std::byte> have_bits(const ChunkSource& source) {
  const size_t count = source.manifest().chunk_count();
  std::vector<std::byte> bits((count + 7) / 8);
  for (size_t i = 0; i < count; ++i)
    if (source.has(i)) bits[i / 8] |= static_cast<std::byte>(1 << (i % 8));
  return bits;
}

// Empty: not here.
Result<std::vector<std::byte>> answer_to(const WeightRequest& request, const WeightLibrary& library) {
  using Kind = WeightRequest::Kind;
  const auto source = library.find(request.model);
  if (source == nullptr) return std::vector<std::byte>();
  const Manifest& manifest = source->manifest();
  if (request.kind == Kind::kManifest) return manifest.to_bytes();
  if (request.kind == Kind::kHave) return have_bits(*source);
  if (request.chunk >= manifest.chunk_count())
    return Status(Errc::kCorrupt,
                  fmt::format("asked for chunk {} of {}", request.chunk, manifest.chunk_count()));
  const uint32_t whole = manifest.place(request.chunk).bytes;
  if (request.bytes == 0 || request.bytes > WeightRequest::kPieceBytesMax || request.offset > whole ||
      request.bytes > whole - request.offset)
    return Status(
        Errc::kCorrupt,
        fmt::format("asked for {} bytes from {} of chunk {}, which has {}; at most {} at once", request.bytes,
                    request.offset, request.chunk, whole, WeightRequest::kPieceBytesMax));
  if (!source->has(request.chunk)) return std::vector<std::byte>();
  std::vector<std::byte> piece(request.bytes);
  if (const Status status = source->read(request.chunk, request.offset, piece); !status) {
    log_warn("{}", status.text());  // ours, not the peer's
    piece.clear();
  }
  return piece;
}

Status serve_one(Link& link, const WeightLibrary& library, const WeightServerOptions& options) {
  auto head = link.receive_head(options.idle_max);
  if (!head) return head.status();
  if (head->kind != MessageKind::kWeights || head->bytes != WeightRequest::kBytes)
    return {Errc::kCorrupt,
            fmt::format("{}: sent kind {} with {} bytes, expected a request of {}", link.peer().name,
                        static_cast<int>(head->kind), head->bytes, WeightRequest::kBytes)};
  std::vector<std::byte> body(head->bytes);
  if (Status status = link.receive_body(body, options.send_timeout); !status) return status;
  const auto request = WeightRequest::parse(body);
  if (!request) return request.status();
  auto answer = answer_to(*request, library);
  if (!answer) return answer.status();
  if (options.throttle != nullptr) options.throttle->take(answer->size());
  return send_message(link, {.kind = MessageKind::kWeights, .step = head->step}, *answer,
                      options.send_timeout);
}

}  // namespace

Status serve_weights(Link& link, const WeightLibrary& library, const WeightServerOptions& options) {
  while (true) {
    Status status = serve_one(link, library, options);
    if (status) continue;
    link.close();
    return status;
  }
}

}  // namespace butterfly::cluster
