#include "cluster/lead/lead_record.h"

#include <algorithm>

#include "cluster/member/message_fields.h"
#include "cluster/wire/wire_reader.h"
#include "cluster/wire/wire_writer.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kHolderBytesMax = kKeyBytesMax + 32;
constexpr size_t kSignatureBytesMax = 256;
constexpr uint8_t kRecordForm = 1;

void write(WireWriter& out, const std::vector<NodeId>& nodes) {
  out.count(nodes.size());
  for (const NodeId& node : nodes) {
    out.text(node.key);
    out.text(node.name);
  }
}
std::vector<NodeId> read_nodes(WireReader& in, size_t count_max) {
  std::vector<NodeId> nodes(in.count(static_cast<uint32_t>(count_max), 8));
  for (NodeId& node : nodes) {
    node.key = in.text(kKeyBytesMax);
    node.name = in.text(kNameBytesMax);
  }
  return nodes;
}

void write(WireWriter& out, const Mandate& mandate) {
  out.u64(mandate.version);
  write(out, mandate.seats);
  write(out, mandate.voters);
  write(out, mandate.before);
  out.text(mandate.signature);
}
Mandate read_mandate(WireReader& in) {
  Mandate mandate;
  mandate.version = in.u64();
  mandate.seats = read_nodes(in, kSeatsMax);
  mandate.voters = read_nodes(in, kVotersMax);
  mandate.before = read_nodes(in, kVotersMax);
  mandate.signature = in.text(kSignatureBytesMax);
  return mandate;
}

void write(WireWriter& out, const SyncRecord& sync) {
  out.u64(sync.term);
  out.u64(sync.number);
  out.count(sync.keys.size());
  for (const std::string& key : sync.keys) out.text(key);
}
SyncRecord read_sync(WireReader& in) {
  SyncRecord sync{.term = in.u64(), .number = in.u64()};
  sync.keys.resize(in.count(kSeatsMax, 4));
  for (std::string& key : sync.keys) key = in.text(kKeyBytesMax);
  return sync;
}

void write(WireWriter& out, const VoterRecord& record) {
  out.u64(record.promised);
  out.text(record.holder);
  write(out, record.mandate);
  write(out, record.sync);
}
VoterRecord read_record(WireReader& in) {
  VoterRecord record;
  record.promised = in.u64();
  record.holder = in.text(kHolderBytesMax);
  record.mandate = read_mandate(in);
  record.sync = read_sync(in);
  return record;
}

}  // namespace

bool SyncRecord::has(std::string_view key) const { return std::ranges::find(keys, key) != keys.end(); }

std::string holder_key(std::string_view holder) { return std::string(holder.substr(0, holder.find(':'))); }

std::string VoterRecord::encode() const {
  WireWriter out(512);
  out.u8(kRecordForm);
  write(out, *this);
  const std::vector<std::byte> bytes = std::move(out).take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<VoterRecord> VoterRecord::decode(std::string_view bytes) {
  WireReader in(std::as_bytes(std::span(bytes)));
  if (const uint8_t form = in.u8(); form != kRecordForm) in.refuse("a form that this program does not know");
  VoterRecord record = read_record(in);
  if (Status bad = in.finish("voter record"); !bad.ok()) return bad;
  return record;
}

std::vector<std::byte> LeadQuestion::encode() const {
  WireWriter out(512 + lines.size());
  out.enumerator(kind);
  out.u64(number);
  out.u64(term);
  out.text(holder);
  write(out, mandate);
  write(out, sync);
  out.count(addresses.size());
  for (const SeatAddress& row : addresses) {
    out.text(row.key);
    out.text(row.address);
  }
  out.flag(anew);
  out.flag(more);
  out.text(lines);
  return std::move(out).take();
}

Result<LeadQuestion> LeadQuestion::decode(std::span<const std::byte> body) {
  WireReader in(body);
  LeadQuestion question;
  question.kind = in.enumerator(Kind::kLook, Kind::kCopy);
  question.number = in.u64();
  question.term = in.u64();
  question.holder = in.text(kHolderBytesMax);
  question.mandate = read_mandate(in);
  question.sync = read_sync(in);
  question.addresses.resize(in.count(kSeatsMax + 2 * kVotersMax, 8));
  for (SeatAddress& row : question.addresses) {
    row.key = in.text(kKeyBytesMax);
    row.address = in.text(kAddressBytesMax);
  }
  question.anew = in.flag();
  question.more = in.flag();
  question.lines = in.text(kCopyPartMax);
  if (Status bad = in.finish("lead question"); !bad.ok()) return bad;
  return question;
}

std::vector<std::byte> LeadAnswer::encode() const {
  WireWriter out(512);
  out.u64(number);
  out.flag(granted);
  write(out, record);
  out.u64(static_cast<uint64_t>(std::max<int64_t>(lease_left.count(), 0)));
  out.text(why);
  return std::move(out).take();
}

Result<LeadAnswer> LeadAnswer::decode(std::span<const std::byte> body) {
  WireReader in(body);
  LeadAnswer answer;
  answer.number = in.u64();
  answer.granted = in.flag();
  answer.record = read_record(in);
  FieldReader(in).duration(answer.lease_left);
  answer.why = in.text(kTextBytesMax);
  if (Status bad = in.finish("lead answer"); !bad.ok()) return bad;
  return answer;
}

}  // namespace butterfly::cluster
