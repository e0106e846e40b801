#include "cluster/lead/lead_voter.h"

#include <fmt/format.h>

namespace butterfly::cluster {

LeadVoter::LeadVoter(VoterRecord record, Duration lease, TimePoint now)
    : record_(std::move(record)), lease_(lease), until_(record_.holder.empty() ? now : now + lease) {}

std::string LeadVoter::why_not(const LeadQuestion& question, const std::string& from, TimePoint now) const {
  using Kind = LeadQuestion::Kind;
  if (question.kind == Kind::kLook) return {};
  const Mandate& mandate =
      question.mandate.version > record_.mandate.version ? question.mandate : record_.mandate;
  if (holder_key(question.holder) != from || !mandate.may_lead(from)) return "may not lead";
  const bool holds = question.term == record_.promised && question.holder == record_.holder;
  if (question.kind == Kind::kCopy || question.kind == Kind::kResign) {
    if (!holds) return "another one leads by now";
    return question.kind == Kind::kCopy && question.number < copy_number_ ? "a newer one is here" : "";
  }
  if (question.term < record_.promised || (question.term == record_.promised && !holds))
    return fmt::format("term {} is promised", record_.promised);
  if (question.kind == Kind::kClaim) {
    if (question.mandate.version < record_.mandate.version) return "there is a newer mandate";
    if (holds) return {};  // asked again, since the answer was lost
  }
  if (!holds && lease_left(now) > Duration{} && question.holder != record_.holder)
    return "another one has its time";
  return {};
}

LeadAnswer LeadVoter::answer(const LeadQuestion& question, const std::string& from, TimePoint now) {
  using Kind = LeadQuestion::Kind;
  LeadAnswer answer{.number = question.number, .why = why_not(question, from, now)};
  answer.granted = answer.why.empty();
  if (answer.granted && (question.kind == Kind::kClaim || question.kind == Kind::kRenew)) {
    if (question.term != record_.promised) copy_number_ = 0;
    record_.promised = question.term;
    record_.holder = question.holder;
    if (question.mandate.version > record_.mandate.version) record_.mandate = question.mandate;
    if (question.sync.newer_than(record_.sync)) record_.sync = question.sync;
    until_ = now + lease_;
  }
  if (answer.granted && question.kind == Kind::kResign) until_ = now;
  if (answer.granted && question.kind == Kind::kCopy) copy_number_ = question.number;
  answer.record = record_;
  answer.lease_left = lease_left(now);
  return answer;
}

}  // namespace butterfly::cluster
