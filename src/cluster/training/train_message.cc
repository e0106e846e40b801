#include "cluster/training/train_message.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "cluster/member/message_codec.h"
#include "cluster/member/message_fields.h"

namespace butterfly::cluster {
namespace {

// T as this visitor sees it: const when it is written.
template <typename F, typename T>
using Of = typename F::template Of<T>;

template <typename F, typename M>
void step_fields(F& f, M& m) {
  f.u64(m.epoch);
  f.u64(m.step);
}

template <typename F>
void fields(F& f, Of<F, StartTraining>& m) {
  f.u64(m.run);
  f.u32(m.you);
  f.bytes(m.config, kTrainConfigBytesMax);
  f.u64(m.steps);
  f.u64(m.model_bytes);
  for (auto* number : {&m.items, &m.ids, &m.values, &m.targets}) f.u32(*number);
}
template <typename F>
void fields(F& f, Of<F, NewTrainPlan>& m) {
  auto& plan = m.plan;
  f.u64(plan.epoch);
  f.u64(plan.step);
  f.list(plan.members, kTrainMembersMax, 16, [&](auto& member) {
    f.u32(member.id);
    f.node(member.node);
    f.text(member.address, kAddressBytesMax);
  });
  f.list(plan.shards, kTrainMembersMax + 1, 12, [&](auto& shard) {
    f.u32(shard.owner);
    f.u32(shard.begin);
    f.u32(shard.end);
  });
  f.u32(plan.slots);
  f.list(plan.held, kTrainMembersMax, 12, [&](auto& held) {
    f.u32(held.member);
    f.u32(held.begin);
    f.u32(held.end);
  });
  f.list(plan.stages, kTrainMembersMax, 12, [&](auto& stage) {
    f.u32(stage.member);
    f.u32(stage.begin);
    f.u32(stage.end);
  });
  f.flag(plan.tied);
  f.u32(plan.in_flight);
  f.flag(plan.weights_come);
  f.u32(plan.weights_from);
  f.list(plan.weights_to, kTrainMembersMax, 4, [&](auto& member) { f.u32(member); });
  f.flag(plan.moments_come);
}
template <typename F>
void fields(F& f, Of<F, DealtStep>& m) {
  step_fields(f, m);
  f.u64(m.targets);
  f.list(m.deal, kTrainMembersMax, 12, [&](auto& dealt) {
    f.u32(dealt.member);
    f.leaf(dealt.leaves.begin);
    f.leaf(dealt.leaves.end);
  });
  f.flag(m.trace);
}
template <typename F>
void fields(F& f, Of<F, CommitDealtStep>& m) {
  step_fields(f, m);
  f.real(m.norm);
  f.real(m.scale);
}
template <typename F>
void fields(F& f, Of<F, CutDealtStep>& m) {
  step_fields(f, m);
}
template <typename F>
void fields(F& f, Of<F, GatherTrainState>& m) {
  step_fields(f, m);
}
template <typename F>
void fields(F& f, Of<F, EndTraining>& m) {
  f.text(m.why, kTextBytesMax);
}
template <typename F>
void fields(F& f, Of<F, TrainingAgreed>& m) {
  f.text(m.agreement, kKeyBytesMax);
  f.text(m.address, kAddressBytesMax);
  f.u64(m.memory_bytes);
}
template <typename F>
void fields(F& f, Of<F, TrainingReady>& m) {
  f.u64(m.epoch);
}
template <typename F>
void fields(F& f, Of<F, LeavesDone>& m) {
  step_fields(f, m);
  f.list(m.leaves, kTrainLeavesMax, 16, [&](auto& leaf) {
    f.f64(leaf.loss);
    f.u64(leaf.correct);
  });
  f.real(m.seconds);
  f.u64(m.made);
  f.u64(m.targets);
  for (const TrainTimeField& field : kTrainTimeFields) f.real(m.times.*field.seconds);
  f.real(m.times.beside);
  f.real(m.cpu_seconds);
  for (auto* bytes : {&m.bytes_sent, &m.bytes_received, &m.gradient_bytes, &m.gradient_bytes_sent,
                      &m.weight_bytes, &m.weight_bytes_sent})
    f.u64(*bytes);
  f.text(m.packing_gradients, kTextBytesMax);
  f.text(m.packing_weights, kTextBytesMax);
  f.list(m.spans, kTrainSpansMax, 20, [&](auto& span) {
    f.u32(span.field);
    f.real(span.begin);
    f.real(span.end);
  });
}
template <typename F>
void fields(F& f, Of<F, StepPrepared>& m) {
  step_fields(f, m);
  f.list(m.squares, kTrainBlocksMax, 4, [&](auto& value) { f.f32(value); });
}
template <typename F>
void fields(F& f, Of<F, TrainStateReport>& m) {
  step_fields(f, m);
  f.text(m.hash, kKeyBytesMax);
}
template <typename F>
void fields(F& f, Of<F, TrainingFailed>& m) {
  f.text(m.why, kTextBytesMax);
}

// What these messages have besides the fields of others.
class Writer : public FieldWriter {
 public:
  explicit Writer(WireWriter& out) : FieldWriter(out), out_(out) {}
  void leaf(size_t value) { out_.u32(static_cast<uint32_t>(value)); }
  void f32(float value) { out_.f32(value); }
  void f64(double value) { out_.f64(value); }  // of any kind: a loss may be infinite

 private:
  WireWriter& out_;
};
class Reader : public FieldReader {
 public:
  explicit Reader(WireReader& in) : FieldReader(in), in_(in) {}
  void leaf(size_t& value) {
    value = in_.u32();
    if (value > kTrainLeavesMax) in_.refuse(fmt::format("leaf {}, at most {}", value, kTrainLeavesMax));
  }
  void f32(float& value) { value = in_.f32(); }
  void f64(double& value) { value = in_.f64(); }

 private:
  WireReader& in_;
};

// ---- Rules that no single field can check ----

void check(const NewTrainPlan& m, WireReader& in) {
  const TrainPlan& plan = m.plan;
  uint32_t at = 0;
  for (const OwnedShard& shard : plan.shards) {
    if (shard.begin != at || shard.end <= shard.begin || shard.end > kTrainBlocksMax)
      in.refuse(fmt::format("a shard of blocks {} to {} behind block {}", shard.begin, shard.end, at));
    if (plan.find(shard.owner) == nullptr) in.refuse(fmt::format("owner {} is no member", shard.owner));
    at = shard.end;
  }
  at = 0;
  for (const HeldSlots& held : plan.held) {
    if (held.begin != at || held.end <= held.begin || held.end > plan.slots)
      in.refuse(fmt::format("slots {} to {} of {} behind slot {}", held.begin, held.end, plan.slots, at));
    if (plan.find(held.member) == nullptr) in.refuse(fmt::format("member {} is none", held.member));
    at = held.end;
  }
  if (plan.slots > kTrainLeavesMax || (!plan.held.empty() && at != plan.slots))
    in.refuse(fmt::format("{} slots, of which {} are held", plan.slots, at));
  at = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const PipelineStage& stage = plan.stages[i];
    if (stage.begin != at || stage.end <= stage.begin || stage.end > kTrainPiecesMax)
      in.refuse(fmt::format("a stage of pieces {} to {} behind piece {}", stage.begin, stage.end, at));
    if (plan.find(stage.member) == nullptr || plan.stage_of(stage.member) != i)
      in.refuse(fmt::format("member {} of stage {} is none, or has another one", stage.member, i));
    at = stage.end;
  }
  if (plan.in_flight > kTrainInFlightMax || (plan.pipelined() && plan.in_flight == 0))
    in.refuse(fmt::format("{} micro-batches in flight", plan.in_flight));
  for (size_t i = 0; i < plan.members.size(); ++i)
    if (i > 0 && plan.members[i].id <= plan.members[i - 1].id) in.refuse("members out of order");
}
void check(const DealtStep& m, WireReader& in) {
  size_t at = 0;
  for (size_t i = 0; i < m.deal.size(); ++i) {
    const DealtLeaves& dealt = m.deal[i];
    if (dealt.leaves.begin != at || dealt.leaves.end < dealt.leaves.begin)
      in.refuse(fmt::format("leaves {} to {} behind leaf {}", dealt.leaves.begin, dealt.leaves.end, at));
    if (i > 0 && dealt.member <= m.deal[i - 1].member) in.refuse("members out of order");
    at = dealt.leaves.end;
  }
  if (at == 0) in.refuse("a step without leaves");
  if (m.targets == 0) in.refuse("a step without targets");
}
void check(const LeavesDone& m, WireReader& in) {
  for (const TrainSpan& span : m.spans)
    if (span.field > kTrainSpanBeside || !(span.begin <= span.end))
      in.refuse(fmt::format("a span of kind {} from {} to {}", span.field, span.begin, span.end));
}
template <typename M>
void check(const M&, WireReader&) {}

struct TrainCodec {
  static constexpr std::string_view kWhat = "training message";
  static constexpr size_t kBytesMax = kTrainMessageBytesMax;
  template <typename M>
  static void write(WireWriter& out, const M& message) {
    Writer writer(out);
    fields(writer, message);
  }
  template <typename M>
  static void read(WireReader& in, M& message) {
    Reader reader(in);
    fields(reader, message);
    if (in.ok()) check(message, in);
  }
};

}  // namespace

std::vector<std::byte> encode(const ToTrainMember& message) { return encode_message<TrainCodec>(message); }
std::vector<std::byte> encode(const ToTrainLead& message) { return encode_message<TrainCodec>(message); }
Result<ToTrainMember> decode_to_train_member(std::span<const std::byte> body) {
  return decode_message<TrainCodec, ToTrainMember>(body);
}
Result<ToTrainLead> decode_to_train_lead(std::span<const std::byte> body) {
  return decode_message<TrainCodec, ToTrainLead>(body);
}

std::vector<std::byte> encode(const PeerGreeting& greeting) {
  WireWriter out(17);
  out.u8(PeerGreeting::kType);
  out.u64(greeting.run);
  out.u32(greeting.from);
  out.u32(greeting.to);
  return std::move(out).take();
}

Result<PeerGreeting> decode_peer_greeting(std::span<const std::byte> body) {
  WireReader in(body);
  if (const uint8_t type = in.u8(); type != PeerGreeting::kType) in.refuse(fmt::format("type {}", type));
  PeerGreeting greeting{.run = in.u64(), .from = in.u32(), .to = in.u32()};
  if (Status bad = in.finish("peer greeting"); !bad.ok()) return bad;
  return greeting;
}

std::vector<std::byte> ValuesHead::encode() const {
  WireWriter out(kBytes);
  out.enumerator(what);
  out.flag(all);
  out.u16(static_cast<uint16_t>(node.level));
  out.u32(node.index);
  out.u32(begin);
  out.u32(end);
  out.u8(mode);
  out.enumerator(packing);
  out.u8(planes);
  out.u8(0);
  BF_CHECK(out.size() == kBytes) << out.size();
  return std::move(out).take();
}

Result<ValuesHead> ValuesHead::decode(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  ValuesHead head;
  head.what = in.enumerator(TrainValues::kModel, TrainValues::kTable);
  head.all = in.flag();
  head.node.level = in.u16();
  head.node.index = in.u32();
  head.begin = in.u32();
  head.end = in.u32();
  head.mode = in.u8();
  if (head.mode > kTrainModesMax) in.refuse(fmt::format("mode {} is not known here", head.mode));
  head.packing = in.enumerator(Packing::kNone, Packing::kLz4Frame);
  head.planes = in.u8();
  const bool packs =
      head.what == TrainValues::kGradients || (head.what == TrainValues::kWeights && !head.all);
  if (head.packing == Packing::kNone ? head.planes != 0
                                     : !packs || head.planes == 0 || head.planes > kPlanesMax)
    in.refuse(fmt::format("packing {} of elements of {} bytes", packing_name(head.packing), head.planes));
  if (in.u8() != 0) in.refuse("a byte that is not 0");
  if (head.end < head.begin) in.refuse(fmt::format("blocks {} to {}", head.begin, head.end));
  if (Status bad = in.finish("values"); !bad.ok()) return bad;
  return head;
}

}  // namespace butterfly::cluster
