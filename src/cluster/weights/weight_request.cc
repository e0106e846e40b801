#include "cluster/weights/weight_request.h"

#include <algorithm>

#include "cluster/transport/message.h"
#include "cluster/wire/wire_reader.h"
#include "cluster/wire/wire_writer.h"

namespace butterfly::cluster {

std::vector<std::byte> WeightRequest::to_bytes() const {
  WireWriter out(kBytes);
  out.enumerator(kind);
  out.raw(model);
  out.u32(chunk);
  out.u32(offset);
  out.u32(bytes);
  return std::move(out).take();
}

Result<WeightRequest> WeightRequest::parse(std::span<const std::byte> body) {
  WireReader in(body);
  WeightRequest request;
  request.kind = in.enumerator(Kind::kManifest, Kind::kChunk);
  std::ranges::copy(in.raw(request.model.size()), request.model.begin());
  request.chunk = in.u32();
  request.offset = in.u32();
  request.bytes = in.u32();
  if (Status status = in.finish("weight request"); !status) return status;
  return request;
}

Status send_request(Link& link, const WeightRequest& request, uint64_t number, Duration timeout) {
  return send_message(link, {.kind = MessageKind::kWeights, .step = number}, request.to_bytes(), timeout);
}

}  // namespace butterfly::cluster
