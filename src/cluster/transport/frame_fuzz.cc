// libFuzzer target: any bytes as what comes from a peer: frames, hello, joining, certificates, and the reader
// of all control messages under any sequence of reads. The first byte chooses.
//
//   cmake --preset fuzz && cmake --build build/fuzz --target frame_fuzz
//   build/fuzz/bin/frame_fuzz -runs=1000000 -max_len=1024 corpus-folder
//   src/cluster/transport/frame_fuzz_corpus
#include <cstdlib>
#include <cstring>

#include "cluster/identity/enrolment.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/hello.h"
#include "cluster/wire/wire_reader.h"
#include "cluster/wire/wire_writer.h"

namespace {

using namespace butterfly::cluster;
using Bytes = std::span<const std::byte>;

void require(bool holds) {
  if (!holds) std::abort();
}
bool same(Bytes a, Bytes b) { return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin()); }

// What is accepted has one form only: written again it is the same bytes.
void frame(Bytes bytes) {
  if (bytes.size() < kFrameBytes) return;
  const auto whole = bytes.first<kFrameBytes>();
  if (const auto head = decode_frame(whole)) {
    require(head->bytes <= message_bytes_max(head->kind));
    require(same(encode_frame(*head), whole));
  }
  // The check alone keeps random bytes out; so make it right and try what lies behind it.
  MessageHead made{.kind = static_cast<MessageKind>(bytes[4])};
  std::memcpy(&made.epoch, bytes.data() + 8, 8);
  std::memcpy(&made.step, bytes.data() + 16, 8);
  std::memcpy(&made.bytes, bytes.data() + 24, 4);
  const bool good = message_bytes_max(made.kind) > 0 && made.bytes <= message_bytes_max(made.kind);
  require(decode_frame(encode_frame(made)).ok() == good);
}

// The first half says what to read, the second half is read.
void reader(Bytes bytes) {
  const Bytes script = bytes.first(bytes.size() / 2);
  WireReader in(bytes.subspan(bytes.size() / 2));
  size_t taken = 0;
  for (const std::byte step : script) {
    const size_t before = in.left(), limit = std::to_integer<size_t>(step) >> 4;
    switch (std::to_integer<int>(step) & 15) {
      case 0:
        in.u8();
        break;
      case 1:
        in.u16();
        break;
      case 2:
        in.u32();
        break;
      case 3:
        in.u64();
        break;
      case 4:
        in.f64();
        break;
      case 5:
        in.flag();
        break;
      case 6:
        require(in.text(limit).size() <= limit);
        break;
      case 7:
        require(in.blob(limit).size() <= limit);
        break;
      case 8:
        require(in.raw(limit).size() <= limit);
        break;
      case 9:
        require(in.enumerator(LinkPurpose::kControl, LinkPurpose::kTrain) <= LinkPurpose::kTrain);
        break;
      case 10:
        require(in.count(static_cast<uint32_t>(limit) << 8, limit) * limit <= in.left());
        break;
      default:
        in.refuse("asked to");
        break;
    }
    require(in.left() <= before);
    taken += before - in.left();
  }
  const size_t left = in.left();
  const bool ok = in.ok();
  require(in.finish("fuzz").ok() == (ok && left == 0));
  require(taken + left == bytes.size() - bytes.size() / 2);
}

template <typename T>
void message(Bytes bytes) {
  if (const auto read = T::decode(bytes)) (void)read->encode();
}

void hello(Bytes bytes) {
  const auto read = Hello::decode(bytes);
  if (read.ok() && read->protocol == Hello::kProtocol) require(same(read->encode(), bytes));
  if (read.ok()) (void)why_not_together({}, *read, "peer");
}

void certificates(Bytes bytes) {
  if (const auto read = CertificateRequest::from_der(bytes))
    require(why_not_node_name(read->node().name).empty());
  if (const auto read = Certificate::from_der(bytes)) (void)read->node();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Bytes bytes = std::as_bytes(std::span(data, size)).subspan(1);
  constexpr void (*kTargets[])(Bytes) = {
      frame, reader, hello, message<EnrolmentRequest>, message<EnrolmentReply>, certificates};
  kTargets[data[0] % std::size(kTargets)](bytes);
  return 0;
}
