#include "cluster/transport/hello.h"

#include <fmt/core.h>

#include "base/printable.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/message.h"
#include "cluster/wire/wire_reader.h"
#include "cluster/wire/wire_writer.h"
#include "kernels/simd/target.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kVersionBytesMax = 64;
constexpr size_t kAddressBytesMax = 300;

}  // namespace

const uint32_t Hello::kNumerics = kernels::kNumericsId;

bool carries_rows(LinkPurpose purpose) {
  return purpose == LinkPurpose::kStage || purpose == LinkPurpose::kTrain || purpose == LinkPurpose::kProbe;
}

std::vector<std::byte> Hello::encode() const {
  WireWriter out;
  out.u16(protocol);
  out.u32(numerics_id);
  out.enumerator(purpose);
  out.u64(incarnation);
  out.u32(job);
  out.u64(epoch);
  out.text(version.substr(0, kVersionBytesMax));
  out.text(address.substr(0, kAddressBytesMax));
  out.u64(mpi_world);
  out.u32(mpi_rank);
  out.u32(mpi_channel);
  return std::move(out).take();
}

Result<Hello> Hello::decode(std::span<const std::byte> body) {
  WireReader in(body);
  Hello hello;
  hello.protocol = in.u16();
  hello.numerics_id = in.u32();
  // Of another protocol these two are all that can be read, and all that is needed to say so.
  if (in.ok() && hello.protocol != kProtocol) return hello;
  hello.purpose = in.enumerator(LinkPurpose::kControl, LinkPurpose::kCache);
  hello.incarnation = in.u64();
  hello.job = in.u32();
  hello.epoch = in.u64();
  hello.version = in.text(kVersionBytesMax);
  hello.address = in.text(kAddressBytesMax);
  hello.mpi_world = in.u64();
  hello.mpi_rank = in.u32();
  hello.mpi_channel = in.u32();
  if (Status status = in.finish("hello"); !status.ok()) return status;
  return hello;
}

std::string why_not_together(const Hello& mine, const Hello& theirs, const std::string& peer_name) {
  if (theirs.protocol != mine.protocol)
    return fmt::format(
        "node {} speaks version {} of the cluster's protocol, this node speaks version {}: install the same "
        "version "
        "of butterfly on both",
        peer_name, theirs.protocol, mine.protocol);
  if (theirs.numerics_id != mine.numerics_id)
    return fmt::format(
        "node {} computes by numerics {}, this node by numerics {}: their results would differ in bits, so "
        "they do "
        "not work together; install the same version of butterfly on both",
        peer_name, theirs.numerics_id, mine.numerics_id);
  // Numbers are raised by people; the version of the program is the promise that they were. Programs that
  // say none are tests.
  if (theirs.version != mine.version && !theirs.version.empty() && !mine.version.empty())
    return fmt::format(
        "node {} runs version {} of butterfly, this node version {}: install the same version on both (the "
        "coordinator's first; docs/cluster.md has the order)",
        peer_name, printable(theirs.version), mine.version);
  return {};
}

Result<Hello> exchange_hello(Link& link, const Hello& mine, Duration timeout) {
  const auto close_with = [&](Status status) {
    link.close();
    return status;
  };
  const Deadline deadline(SystemClock::instance(), timeout);
  if (Status status = send_message(link, {.kind = MessageKind::kHello}, mine.encode(), timeout); !status.ok())
    return close_with(status);
  const auto message = receive_message(link, message_bytes_max(MessageKind::kHello), deadline.remaining());
  if (!message) return close_with(message.status());
  if (message->head.kind != MessageKind::kHello)
    return close_with({Errc::kCorrupt, fmt::format("[hello] {}: expected hello first, found {}",
                                                   link.peer().name, message_kind_name(message->head.kind))});
  auto theirs = Hello::decode(message->body);
  if (!theirs) return close_with(theirs.status());
  if (std::string why = why_not_together(mine, *theirs, link.peer().name); !why.empty())
    return close_with({Errc::kUnsupported, std::move(why)});
  return theirs;
}

}  // namespace butterfly::cluster
