// libFuzzer target: any bytes as a manifest or a request for weights. What is accepted can be written, and is
// the same bytes then. The first byte chooses.
//
//   cmake --preset fuzz && cmake --build build/fuzz --target manifest_fuzz
//   build/fuzz/bin/manifest_fuzz -runs=1000000 -max_len=4096 corpus-folder
#include <algorithm>
#include <cstdlib>

#include "cluster/weights/manifest.h"
#include "cluster/weights/weight_request.h"

namespace {

using namespace butterfly::cluster;
using Bytes = std::span<const std::byte>;

void require_same(Bytes a, Bytes b) {
  if (a.size() != b.size() || !std::equal(a.begin(), a.end(), b.begin())) std::abort();
}

void weight_request(Bytes bytes) {
  if (const auto read = WeightRequest::parse(bytes)) require_same(read->to_bytes(), bytes);
}

// Every chunk of an accepted manifest has a place inside its file.
void manifest(Bytes bytes) {
  const auto read = Manifest::parse(bytes);
  if (!read.ok()) return;
  require_same(read->to_bytes(), bytes);
  for (size_t chunk = 0; chunk < read->chunk_count(); ++chunk) {
    const Manifest::Place place = read->place(chunk);
    if (place.file >= read->files().size() || place.offset + place.bytes > read->files()[place.file].bytes)
      std::abort();
  }
  (void)read->bytes_of(read->heads());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr void (*kTargets[])(Bytes) = {weight_request, manifest};
  kTargets[data[0] % std::size(kTargets)](std::as_bytes(std::span(data, size)).subspan(1));
  return 0;
}
