#include "cluster/identity/enrolment.h"

#include <fmt/format.h>

#include "base/log.h"
#include "cluster/wire/wire_reader.h"
#include "cluster/wire/wire_writer.h"

namespace butterfly::cluster {
namespace {

constexpr uint16_t kVersion = 1;
constexpr size_t kSecretBytesMax = 256;
constexpr size_t kDerBytesMax = 4u << 10;
constexpr size_t kRefusalBytesMax = 1u << 10;

// A wrong secret costs a hash and a read of one file, so this is about load, not about guessing 128 bits.
constexpr int kFailuresMax = 10;
constexpr Duration kFailurePause = std::chrono::seconds(6);

std::vector<std::byte> copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

void version(WireReader& in) {
  if (const uint16_t found = in.u16(); in.ok() && found != kVersion)
    in.refuse(fmt::format("version {} of joining, this program knows version {}", found, kVersion));
}

}  // namespace

std::vector<std::byte> EnrolmentRequest::encode() const {
  WireWriter out;
  out.u16(kVersion);
  out.text(secret);
  out.blob(certificate_request);
  return std::move(out).take();
}

Result<EnrolmentRequest> EnrolmentRequest::decode(std::span<const std::byte> body) {
  WireReader in(body);
  version(in);
  EnrolmentRequest request;
  request.secret = in.text(kSecretBytesMax);
  request.certificate_request = copy(in.blob(kDerBytesMax));
  if (Status status = in.finish("join"); !status.ok()) return status;
  return request;
}

std::vector<std::byte> EnrolmentReply::encode() const {
  WireWriter out;
  out.u16(kVersion);
  out.text(std::string_view(refusal).substr(0, kRefusalBytesMax));
  out.blob(certificate);
  out.blob(authority);
  return std::move(out).take();
}

Result<EnrolmentReply> EnrolmentReply::decode(std::span<const std::byte> body) {
  WireReader in(body);
  version(in);
  EnrolmentReply reply;
  reply.refusal = in.text(kRefusalBytesMax);
  reply.certificate = copy(in.blob(kDerBytesMax));
  reply.authority = copy(in.blob(kDerBytesMax));
  if (Status status = in.finish("join"); !status.ok()) return status;
  return reply;
}

EnrolmentDesk::EnrolmentDesk(const StateFolder& folder, std::shared_ptr<Roster> roster, const Clock& clock,
                             WallClock wall_clock)
    : authority_(Authority::load(folder)),
      tokens_(folder),
      roster_(std::move(roster)),
      limiter_(clock, kFailuresMax, kFailurePause),
      wall_clock_(std::move(wall_clock)) {}

std::vector<std::byte> EnrolmentDesk::answer(std::span<const std::byte> body, const std::string& address) {
  try {
    return decide(body, address).encode();
  } catch (const std::exception& error) {
    log_error("join from {}: {}", address, error.what());
    return EnrolmentReply{
        .refusal = "the cluster cannot take nodes now; its log says why", .certificate = {}, .authority = {}}
        .encode();
  }
}

EnrolmentReply EnrolmentDesk::decide(std::span<const std::byte> body, const std::string& address) {
  const auto refuse = [&](std::string why) {
    log_warn("join from {} refused: {}", address, why);
    return EnrolmentReply{.refusal = std::move(why), .certificate = {}, .authority = {}};
  };
  if (!limiter_.may_try(address))  // without a line in the log, which would be theirs to fill
    return {
        .refusal = "too many failures from this address; wait a minute", .certificate = {}, .authority = {}};
  // Failures of form count as well: the limit is also for those who only make work.
  const auto fail_with = [&](std::string why) {
    limiter_.failed(address);
    return refuse(std::move(why));
  };
  const auto request = EnrolmentRequest::decode(body);
  if (!request) return fail_with(request.status().text());
  const auto wanted = CertificateRequest::from_der(request->certificate_request);
  if (!wanted) return fail_with(wanted.status().text());

  const NodeId node = wanted->node();
  const WallTime now = wall_clock_();
  if (Status status = may_have_certificate(*request, node, now); !status.ok())
    return fail_with(status.text());
  if (request->secret.empty())
    limiter_.failed(address);  // renewals are rare: many of them from one address are a nuisance too
  else
    limiter_.succeeded(address);
  const Certificate certificate = authority_.issue(*wanted, now);
  log_info("join from {}: node {} ({:.12}) has a certificate", address, node.name, node.key);
  return {.refusal = {}, .certificate = certificate.to_der(), .authority = authority_.certificate().to_der()};
}

Status EnrolmentDesk::may_have_certificate(const EnrolmentRequest& request, const NodeId& node,
                                           WallTime now) {
  if (request.secret.empty()) {
    const auto row = roster_->find(node.key);
    const bool member = row && !row->removed && row->node.name == node.name;
    return member ? Status() : Status(Errc::kNotFound, "no such member; to join, a node needs a token");
  }
  if (Status status = tokens_.redeem(request.secret, node.key, now); !status.ok()) return status;
  // The token is spent on a node that is refused here; it may come again under another name.
  return roster_->admit(node);
}

}  // namespace butterfly::cluster
