#include "cluster/member/control_message.h"

#include <fmt/format.h>

#include <set>
#include <type_traits>

#include "cluster/member/message_codec.h"
#include "cluster/member/message_fields.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kTypesMax = 32;  // of weights, in capabilities

// T as this visitor sees it: const when it is written.
template <typename F, typename T>
using Of = typename F::template Of<T>;

template <typename F>
void task_fields(F& f, Of<F, ModelTask>& task) {
  f.text(task.id, kNameBytesMax);
  f.text(task.name, kNameBytesMax);
  f.text(task.settings, kSettingsBytesMax);
}

template <typename F>
void share_fields(F& f, Of<F, Share>& share) {
  for (auto& range : share.ranges) {
    f.u32(range.begin);
    f.u32(range.end);
    f.u32(range.units);
  }
}

template <typename F>
void assignment_fields(F& f, Of<F, Assignment>& work) {
  f.u32(work.job);
  f.u64(work.epoch);
  task_fields(f, work.model);
  f.u32(work.begin);
  f.u32(work.end);
  f.u32(work.pieces);
  f.u32(work.stage);
  f.u32(work.stages);
  f.list(work.members, kMembersMax, 60, [&](auto& member) {
    f.node(member.node);
    f.text(member.address, kAddressBytesMax);
    share_fields(f, member.share);
  });
  f.u32(work.member);
  f.node(work.previous);
  f.node(work.next);
  f.text(work.next_address, kAddressBytesMax);
  f.list(work.sources, kSourcesMax, 12, [&](auto& source) {
    f.node(source.node);
    f.text(source.address, kAddressBytesMax);
  });
  f.list(work.holders, kSourcesMax, 28, [&](auto& holder) {
    f.node(holder.node);
    f.text(holder.address, kAddressBytesMax);
    f.u32(holder.begin);
    f.u32(holder.end);
    f.real(holder.bytes_per_s);
  });
}

template <typename F>
void capability_fields(F& f, Of<F, Capabilities>& c) {
  f.text(c.cpu, kNameBytesMax);
  f.text(c.target, kNameBytesMax);
  f.text(c.int8_instruction, kNameBytesMax);
  f.text(c.program, kNameBytesMax);
  for (auto* number : {&c.numerics_id, &c.packages, &c.numa_nodes, &c.cores, &c.threads}) f.u32(*number);
  for (auto* number : {&c.l1d_bytes, &c.l2_bytes, &c.l3_bytes, &c.ram_bytes, &c.ram_limit_bytes})
    f.u64(*number);
  f.rate(c.memory);
  f.rate(c.f32);
  f.rate(c.int8);
  f.list(c.kernels, kTypesMax, 36, [&](auto& row) {
    f.text(row.type, kNameBytesMax);
    f.rate(row.weight_bytes_per_s);
    f.rate(row.operations_per_s);
  });
  f.real(c.disk);
  f.real(c.cpu_share);
  f.real(c.burst_s);
  f.i64(c.measured_unix_s);
}

template <typename F, typename M>
void outcome_fields(F& f, M& m) {
  f.u32(m.job);
  f.u64(m.epoch);
  f.choice(m.code, Errc::kCancelled);
  f.text(m.text, kTextBytesMax);
}

// ---- One list per message ----

template <typename F>
void fields(F& f, Of<F, Join>& m) {
  f.u32(m.protocol);
  f.u64(m.instance);
  f.text(m.address, kAddressBytesMax);
  f.i64(m.unix_ms);
  capability_fields(f, m.capabilities);
}
template <typename F>
void fields(F& f, Of<F, Beat>& m) {
  f.u64(m.ram_free_bytes);
  f.real(m.machine.busy);
  f.u64(m.machine.process_bytes);
  f.real(m.machine.celsius);
  f.u64(m.machine.throttles);
  f.real(m.machine.held_up_s);
  f.list(m.jobs, kJobsMax, 81, [&](auto& job) {
    f.u32(job.job);
    f.u64(job.epoch);
    f.choice(job.phase, WorkerPhase::kRunning);
    f.u64(job.progress);
    f.u32(job.pending);
    for (auto* number : {&job.load_done, &job.load_total, &job.steps, &job.rows, &job.compute_us,
                         &job.wait_us, &job.wire_us})
      f.u64(*number);
  });
}
template <typename F>
void fields(F& f, Of<F, Prepared>& m) {
  outcome_fields(f, m);
  f.node(m.peer);
}
template <typename F>
void fields(F& f, Of<F, Ready>& m) {
  outcome_fields(f, m);
  f.u64(m.bytes);
  f.u32(m.ms);
}
template <typename F>
void fields(F& f, Of<F, Started>& m) {
  outcome_fields(f, m);
}
template <typename F>
void fields(F& f, Of<F, Trouble>& m) {
  f.u32(m.job);
  f.u64(m.epoch);
  f.node(m.peer);
  f.text(m.text, kTextBytesMax);
}
template <typename F>
void fields(F& f, Of<F, LinkReport>& m) {
  f.node(m.peer);
  f.choice(m.code, Errc::kCancelled);
  f.text(m.text, kTextBytesMax);
  f.real(m.figures.rtt_s);
  f.real(m.figures.bandwidth);
  f.list(m.figures.points, kLinkPointsMax, 12, [&](auto& point) {
    f.u32(point.bytes);
    f.real(point.seconds);
  });
}
template <typename F>
void fields(F& f, Of<F, Leave>& m) {
  f.text(m.text, kTextBytesMax);
}
template <typename F>
void fields(F& f, Of<F, Retire>& m) {
  f.text(m.text, kTextBytesMax);
}
template <typename F>
void fields(F& f, Of<F, Retired>& m) {
  f.u64(m.incarnation);
  f.text(m.text, kTextBytesMax);
}
template <typename F, typename Keys>
void key_fields(F& f, Keys& keys) {
  f.list(keys, kRemovedMax, 4, [&](auto& key) { f.text(key, kKeyBytesMax); });
}
template <typename F>
void fields(F& f, Of<F, Welcome>& m) {
  f.u64(m.incarnation);
  f.duration(m.beat_every);
  f.duration(m.silent_after);
  key_fields(f, m.removed);
}
template <typename F>
void fields(F& f, Of<F, Notice>& m) {
  f.u64(m.incarnation);
  f.text(m.text, kTextBytesMax);
}
template <typename F>
void fields(F& f, Of<F, Leaders>& m) {
  f.u64(m.incarnation);
  f.bytes(m.mandate, kMandateBytesMax);
  f.list(m.seats, kLeadersMax, 8, [&](auto& seat) {
    f.text(seat.key, kKeyBytesMax);
    f.text(seat.address, kAddressBytesMax);
  });
}
template <typename F>
void fields(F& f, Of<F, Removed>& m) {
  f.u64(m.incarnation);
  key_fields(f, m.keys);
}
template <typename F>
void fields(F& f, Of<F, Refuse>& m) {
  f.flag(m.forever);
  f.text(m.text, kTextBytesMax);
}
template <typename F, typename M>
void plan_fields(F& f, M& m) {
  f.u64(m.incarnation);
  f.u32(m.job);
  f.u64(m.epoch);
}
template <typename F>
void fields(F& f, Of<F, Alive>& m) {
  f.u64(m.incarnation);
}
template <typename F>
void fields(F& f, Of<F, Go>& m) {
  plan_fields(f, m);
}
template <typename F>
void fields(F& f, Of<F, Release>& m) {
  plan_fields(f, m);
  f.flag(m.cache_wanted);
}
template <typename F>
void fields(F& f, Of<F, Abandon>& m) {
  plan_fields(f, m);
}
template <typename F>
void fields(F& f, Of<F, Prepare>& m) {
  f.u64(m.incarnation);
  assignment_fields(f, m.work);
}
template <typename F>
void fields(F& f, Of<F, Assign>& m) {
  f.u64(m.incarnation);
  assignment_fields(f, m.work);
}
template <typename F>
void fields(F& f, Of<F, Measure>& m) {
  f.u64(m.incarnation);
  f.node(m.peer);
  f.text(m.address, kAddressBytesMax);
}

// ---- Rules that no single field can check ----

void check_job(JobId job, WireReader& in) {
  if (job == 0 || job > kJobsMax) in.refuse(fmt::format("job {}, expected 1 to {}", job, kJobsMax));
}
void check_work(const Assignment& work, WireReader& in) {
  check_job(work.job, in);
  if (work.begin >= work.end || work.end > work.pieces)
    in.refuse(fmt::format("pieces {} to {} of {}", work.begin, work.end, work.pieces));
  if (work.stage >= work.stages || work.stages > kNodesMax)
    in.refuse(fmt::format("stage {} of {}", work.stage, work.stages));
  for (const Assignment::Holder& holder : work.holders)
    if (holder.begin >= holder.end || holder.begin < work.begin || holder.end > work.end)
      in.refuse(fmt::format("{} had pieces {} to {}, of {} to {}", holder.node.name, holder.begin, holder.end,
                            work.begin, work.end));
  if (work.member >= work.members.size())
    return in.refuse(fmt::format("member {} of {}", work.member, work.members.size()));
  std::vector<Share> shares;
  std::set<std::string_view> keys;
  for (const Assignment::Member& member : work.members) {
    shares.push_back(member.share);
    if (!keys.insert(member.node.key).second) in.refuse(fmt::format("{} is two members", member.node.name));
  }
  if (const std::string why = why_not_covered(shares); !why.empty()) in.refuse("the members' shares: " + why);
}
template <typename M>
void check(const M& m, WireReader& in) {
  if constexpr (requires { m.work; }) check_work(m.work, in);
  if constexpr (requires { m.job; }) check_job(m.job, in);
  if constexpr (requires { m.jobs; }) {
    std::set<JobId> seen;
    for (const JobBeat& job : m.jobs) {
      check_job(job.job, in);
      if (!seen.insert(job.job).second) in.refuse(fmt::format("job {} twice", job.job));
    }
  }
  if constexpr (requires { m.figures; })
    if (m.figures.rtt_s > 3600) in.refuse("a round trip of more than an hour");
}

struct ControlCodec {
  static constexpr std::string_view kWhat = "control message";
  static constexpr size_t kBytesMax = kControlBytesMax;
  template <typename M>
  static void write(WireWriter& out, const M& message) {
    FieldWriter writer(out);
    fields(writer, message);
  }
  template <typename M>
  static void read(WireReader& in, M& message) {
    FieldReader reader(in);
    fields(reader, message);
    if (in.ok()) check(message, in);
  }
};

template <typename Variant>
MessageHead head_for(const Variant& message) {
  return std::visit(
      []<typename M>(const M& m) {
        MessageHead head;
        const bool health = std::is_same_v<M, Beat> || std::is_same_v<M, Alive>;
        head.kind = health ? MessageKind::kHealth : MessageKind::kControl;
        if constexpr (requires { m.epoch; }) head.epoch = m.epoch;
        if constexpr (requires { m.work; }) head.epoch = m.work.epoch;
        return head;
      },
      message);
}

template <typename Variant>
std::string_view name_for(const Variant& message) {
  return std::visit([]<typename M>(const M&) { return M::kName; }, message);
}

}  // namespace

std::vector<std::byte> encode(const ToCoordinator& message) { return encode_message<ControlCodec>(message); }
std::vector<std::byte> encode(const ToWorker& message) { return encode_message<ControlCodec>(message); }
Result<ToCoordinator> decode_to_coordinator(std::span<const std::byte> body) {
  return decode_message<ControlCodec, ToCoordinator>(body);
}
Result<ToWorker> decode_to_worker(std::span<const std::byte> body) {
  return decode_message<ControlCodec, ToWorker>(body);
}
MessageHead head_of(const ToCoordinator& message) { return head_for(message); }
MessageHead head_of(const ToWorker& message) { return head_for(message); }
std::string_view name_of(const ToCoordinator& message) { return name_for(message); }
std::string_view name_of(const ToWorker& message) { return name_for(message); }

std::string shorten(std::string text) {
  if (text.size() > kTextBytesMax) text.resize(kTextBytesMax);
  return text;
}

}  // namespace butterfly::cluster
