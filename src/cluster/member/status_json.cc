// The JSON of docs/cluster.md, both ways.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "cluster/member/status.h"

#include "base/json_text.h"

namespace butterfly::cluster {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json, int indent) { return json_text(json, indent); }

Json loss_json(const LossForecast& loss) {
  return {{"fits", loss.fits},
          {"tokens_per_s", loss.tokens_per_s},
          {"times_slower", loss.slower},
          {"words", loss.words}};
}

Json node_job_json(const NodeJobStatus& n) {
  Json json = {{"job", n.job}, {"role", n.role}, {"phase", n.phase}, {"pending", n.pending}};
  if (n.begin && n.end)
    json["layers"] = {
        {"begin", *n.begin}, {"end", *n.end}, {"bytes", n.stage_bytes}, {"predicted_s", n.predicted_s}};
  if (n.load_total > 0) json["load"] = {{"done_bytes", n.load_done}, {"total_bytes", n.load_total}};
  json["work"] = {{"steps", n.steps},
                  {"rows", n.rows},
                  {"compute_us", n.compute_us},
                  {"wait_us", n.wait_us},
                  {"wire_us", n.wire_us}};
  if (n.loss) json["if_lost"] = loss_json(*n.loss);
  return json;
}

Json node_json(const NodeStatus& n) {
  Json json = {{"name", n.name},
               {"key", n.key},
               {"state", n.state},
               {"cpu", n.cpu},
               {"target", n.target},
               {"cores", n.cores},
               {"threads", n.threads},
               {"ram_bytes", n.ram_bytes},
               {"ram_free_bytes", n.ram_free_bytes},
               {"disk_bytes_per_s", n.disk_bytes_per_s},
               {"version", n.program},
               {"address", n.address},
               {"rows_per_s", n.rows_per_s},
               {"busy", n.busy},
               {"slowness", n.slowness},
               {"machine",
                {{"busy", n.machine.busy},
                 {"process_bytes", n.machine.process_bytes},
                 {"celsius", n.machine.celsius},
                 {"throttles", n.machine.throttles},
                 {"held_up_s", n.machine.held_up_s}}},
               {"clock_ahead_s", n.clock_ahead_s},
               {"silent_s", n.silent_s},
               {"held_s", n.held_s},
               {"last_failure", n.last_failure}};
  if (!n.drain.empty()) json["drain"] = {{"state", n.drain}, {"why_not", n.why_not_drained}};
  if (n.link_bandwidth > 0) json["link"] = {{"rtt_s", n.link_rtt_s}, {"bytes_per_s", n.link_bandwidth}};
  json["jobs"] = Json::array();
  for (const NodeJobStatus& job : n.jobs) json["jobs"].push_back(node_job_json(job));
  return json;
}

// By kind: first unit, the one after the last, and how many there are.
Json share_json(const Share& share) {
  Json json = Json::object();
  for (size_t k = 0; k < kShareKinds; ++k) {
    const ShareRange& range = share.ranges[k];
    json[std::string(share_kind_name(static_cast<ShareKind>(k)))] = {range.begin, range.end, range.units};
  }
  return json;
}

Json stage_json(const StageStatus& stage) {
  Json members = Json::array();
  for (const StageStatus::Member& member : stage.members)
    members.push_back({{"node", member.name},
                       {"key", member.key},
                       {"share", share_json(member.share)},
                       {"bytes", member.bytes},
                       {"predicted_s", member.predicted_s}});
  return {{"begin", stage.begin}, {"end", stage.end}, {"members", std::move(members)}};
}

Json job_json(const JobStatus& job) {
  Json json = {{"job", job.id},
               {"model", job.model},
               {"model_id", job.model_id},
               {"serving", job.serving},
               {"reason", job.reason},
               {"change", job.change},
               {"plan", job.plan},
               {"epoch", job.epoch},
               {"serving_s", job.serving_s},
               {"layers", job.pieces},
               {"predicted_tokens_per_s", job.predicted_tokens_per_s},
               {"words", job.words},
               {"last_failure", job.last_failure},
               {"rows_again", job.rows_again},
               {"moves_sent", job.moves_sent},
               {"moves_computed", job.moves_computed},
               {"moved_bytes", job.moved_bytes},
               {"row_layers_again", job.row_layers_again},
               {"stages", Json::array()}};
  for (const StageStatus& stage : job.stages) json["stages"].push_back(stage_json(stage));
  return json;
}

Json link_json(const LinkStatus& link) {
  Json points = Json::array();
  for (const LinkPoint& point : link.figures.points)
    points.push_back({{"bytes", point.bytes}, {"seconds", point.seconds}});
  return {{"from", link.from},
          {"to", link.to},
          {"rtt_s", link.figures.rtt_s},
          {"bytes_per_s", link.figures.bandwidth},
          {"points", std::move(points)}};
}

Json unreachable_json(const UnreachableStatus& row) {
  return {
      {"from", row.from}, {"to", row.to}, {"address", row.address}, {"why", row.why}, {"ago_s", row.ago_s}};
}

Json refused_json(const RefusedStatus& row) {
  return {{"name", row.name}, {"key", row.key}, {"why", row.why}, {"times", row.times}, {"ago_s", row.ago_s}};
}

Json event_json(const EventStatus& event) {
  return {{"number", event.number}, {"unix_ms", event.unix_ms}, {"kind", event.kind},
          {"node", event.node},     {"plan", event.plan},       {"text", event.text}};
}

Json lead_json(const LeadStatus& lead) {
  Json seats = Json::array();
  for (const LeadStatus::Seat& seat : lead.seats)
    seats.push_back({{"name", seat.name}, {"key", seat.key}, {"role", seat.role}, {"journal", seat.journal}});
  return {{"term", lead.term},
          {"by_majority", lead.by_majority},
          {"seats", std::move(seats)},
          {"missing", lead.missing}};
}

Json counters_json(const CoordinatorCounters& c) {
  return {{"old_epochs", c.old_epochs},
          {"unknown_links", c.unknown_links},
          {"duplicate_ids", c.duplicate_ids},
          {"refused", c.refused},
          {"unexpected", c.unexpected},
          {"plans", c.plans},
          {"halts", c.halts}};
}

// Reading: what is not there, or not of the type, keeps its default.
template <typename T>
void take(const Json& json, const char* key, T& value) {
  const auto found = json.find(key);
  if (found == json.end()) return;
  if constexpr (std::is_same_v<T, std::string>) {
    if (found->is_string()) value = found->get<std::string>();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (found->is_boolean()) value = found->get<bool>();
  } else {
    if (found->is_number()) value = found->get<T>();
  }
}

Json part(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_object() ? *found : Json::object();
}

Json rows_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_array() ? *found : Json::array();
}

NodeJobStatus read_node_job(const Json& json, const NodeId& node) {
  NodeJobStatus n;
  take(json, "job", n.job);
  take(json, "role", n.role);
  take(json, "phase", n.phase);
  take(json, "pending", n.pending);
  const Json layers = part(json, "layers"), load = part(json, "load"), work = part(json, "work"),
             loss = part(json, "if_lost");
  if (!layers.empty()) {
    n.begin = n.end = 0;
    take(layers, "begin", *n.begin);
    take(layers, "end", *n.end);
    take(layers, "bytes", n.stage_bytes);
    take(layers, "predicted_s", n.predicted_s);
  }
  take(load, "done_bytes", n.load_done);
  take(load, "total_bytes", n.load_total);
  take(work, "steps", n.steps);
  take(work, "rows", n.rows);
  take(work, "compute_us", n.compute_us);
  take(work, "wait_us", n.wait_us);
  take(work, "wire_us", n.wire_us);
  if (!loss.empty()) {
    n.loss = LossForecast{};
    n.loss->node = node;
    take(loss, "fits", n.loss->fits);
    take(loss, "tokens_per_s", n.loss->tokens_per_s);
    take(loss, "times_slower", n.loss->slower);
    take(loss, "words", n.loss->words);
  }
  return n;
}

NodeStatus read_node(const Json& json) {
  NodeStatus n;
  take(json, "name", n.name);
  take(json, "key", n.key);
  take(json, "state", n.state);
  take(json, "cpu", n.cpu);
  take(json, "target", n.target);
  take(json, "cores", n.cores);
  take(json, "threads", n.threads);
  take(json, "ram_bytes", n.ram_bytes);
  take(json, "ram_free_bytes", n.ram_free_bytes);
  take(json, "disk_bytes_per_s", n.disk_bytes_per_s);
  take(json, "version", n.program);
  take(json, "address", n.address);
  take(json, "rows_per_s", n.rows_per_s);
  take(json, "busy", n.busy);
  take(json, "slowness", n.slowness);
  const Json machine = part(json, "machine");
  take(machine, "busy", n.machine.busy);
  take(machine, "process_bytes", n.machine.process_bytes);
  take(machine, "celsius", n.machine.celsius);
  take(machine, "throttles", n.machine.throttles);
  take(machine, "held_up_s", n.machine.held_up_s);
  take(json, "clock_ahead_s", n.clock_ahead_s);
  take(json, "silent_s", n.silent_s);
  take(json, "held_s", n.held_s);
  take(json, "last_failure", n.last_failure);
  const Json drain = part(json, "drain");
  take(drain, "state", n.drain);
  take(drain, "why_not", n.why_not_drained);
  const Json link = part(json, "link");
  take(link, "rtt_s", n.link_rtt_s);
  take(link, "bytes_per_s", n.link_bandwidth);
  for (const Json& row : rows_of(json, "jobs")) n.jobs.push_back(read_node_job(row, {n.key, n.name}));
  return n;
}

Share read_share(const Json& json) {
  Share share;
  for (size_t k = 0; k < kShareKinds; ++k) {
    const auto found = json.find(std::string(share_kind_name(static_cast<ShareKind>(k))));
    if (found == json.end() || !found->is_array() || found->size() != 3) continue;
    ShareRange& range = share.ranges[k];
    for (size_t i = 0; i < 3; ++i)
      if ((*found)[i].is_number_unsigned())
        *std::array{&range.begin, &range.end, &range.units}[i] = (*found)[i].get<uint32_t>();
  }
  return share;
}

StageStatus read_stage(const Json& json) {
  StageStatus stage;
  take(json, "begin", stage.begin);
  take(json, "end", stage.end);
  for (const Json& row : rows_of(json, "members")) {
    StageStatus::Member member;
    take(row, "node", member.name);
    take(row, "key", member.key);
    member.share = read_share(part(row, "share"));
    take(row, "bytes", member.bytes);
    take(row, "predicted_s", member.predicted_s);
    stage.members.push_back(std::move(member));
  }
  return stage;
}

JobStatus read_job(const Json& json) {
  JobStatus job;
  take(json, "job", job.id);
  take(json, "model", job.model);
  take(json, "model_id", job.model_id);
  take(json, "serving", job.serving);
  take(json, "reason", job.reason);
  take(json, "change", job.change);
  take(json, "plan", job.plan);
  take(json, "epoch", job.epoch);
  take(json, "serving_s", job.serving_s);
  take(json, "layers", job.pieces);
  take(json, "predicted_tokens_per_s", job.predicted_tokens_per_s);
  take(json, "words", job.words);
  take(json, "last_failure", job.last_failure);
  take(json, "rows_again", job.rows_again);
  take(json, "moves_sent", job.moves_sent);
  take(json, "moves_computed", job.moves_computed);
  take(json, "moved_bytes", job.moved_bytes);
  take(json, "row_layers_again", job.row_layers_again);
  for (const Json& row : rows_of(json, "stages")) job.stages.push_back(read_stage(row));
  return job;
}

LinkStatus read_link(const Json& json) {
  LinkStatus link;
  take(json, "from", link.from);
  take(json, "to", link.to);
  take(json, "rtt_s", link.figures.rtt_s);
  take(json, "bytes_per_s", link.figures.bandwidth);
  for (const Json& row : rows_of(json, "points")) {
    LinkPoint point;
    take(row, "bytes", point.bytes);
    take(row, "seconds", point.seconds);
    link.figures.points.push_back(point);
  }
  return link;
}

UnreachableStatus read_unreachable(const Json& json) {
  UnreachableStatus row;
  take(json, "from", row.from);
  take(json, "to", row.to);
  take(json, "address", row.address);
  take(json, "why", row.why);
  take(json, "ago_s", row.ago_s);
  return row;
}

RefusedStatus read_refused(const Json& json) {
  RefusedStatus row;
  take(json, "name", row.name);
  take(json, "key", row.key);
  take(json, "why", row.why);
  take(json, "times", row.times);
  take(json, "ago_s", row.ago_s);
  return row;
}

LeadStatus read_lead(const Json& json) {
  LeadStatus lead;
  take(json, "term", lead.term);
  take(json, "by_majority", lead.by_majority);
  for (const Json& row : rows_of(json, "seats")) {
    LeadStatus::Seat& seat = lead.seats.emplace_back();
    take(row, "name", seat.name);
    take(row, "key", seat.key);
    take(row, "role", seat.role);
    take(row, "journal", seat.journal);
  }
  for (const Json& name : rows_of(json, "missing"))
    if (name.is_string()) lead.missing.push_back(name.get<std::string>());
  return lead;
}

EventStatus read_event(const Json& json) {
  EventStatus event;
  take(json, "number", event.number);
  take(json, "unix_ms", event.unix_ms);
  take(json, "kind", event.kind);
  take(json, "node", event.node);
  take(json, "plan", event.plan);
  take(json, "text", event.text);
  return event;
}

}  // namespace

std::string load_json(const Coordinator& coordinator, TimePoint now, int64_t unix_ms) {
  Json nodes = Json::array();
  for (const auto& [key, member] : coordinator.members()) {
    Json points = Json::array();
    for (const LoadPoint& point : member.load.points()) {
      const auto ago = std::chrono::duration_cast<std::chrono::milliseconds>(now - point.at).count();
      points.push_back({{"unix_ms", unix_ms - ago},
                        {"busy", point.busy},
                        {"machine_busy", point.machine_busy},
                        {"rows_per_s", point.rows_per_s},
                        {"pending", point.pending},
                        {"ram_free_bytes", point.ram_free_bytes}});
    }
    nodes.push_back({{"name", member.id.name}, {"key", key}, {"points", std::move(points)}});
  }
  const double every_s = std::chrono::duration<double>(LoadHistory::kEvery).count();
  return text_of({{"every_s", every_s}, {"nodes", std::move(nodes)}}, -1);
}

std::string to_json(const EventStatus& event) { return text_of(event_json(event), -1); }

std::string to_json(const ClusterStatus& s) {
  Json json = {{"serving", s.serving()},   {"reason", s.reason()},   {"incarnation", s.incarnation},
               {"jobs", Json::array()},    {"nodes", Json::array()}, {"unreachable", Json::array()},
               {"refused", Json::array()}, {"links", Json::array()}, {"counters", counters_json(s.counters)},
               {"events", Json::array()}};
  if (!s.caution.empty()) json["caution"] = s.caution;
  if (s.lead) json["lead"] = lead_json(*s.lead);
  for (const JobStatus& job : s.jobs) json["jobs"].push_back(job_json(job));
  for (const NodeStatus& node : s.nodes) json["nodes"].push_back(node_json(node));
  for (const UnreachableStatus& row : s.unreachable) json["unreachable"].push_back(unreachable_json(row));
  for (const RefusedStatus& row : s.refused) json["refused"].push_back(refused_json(row));
  for (const LinkStatus& link : s.links) json["links"].push_back(link_json(link));
  for (const EventStatus& event : s.events) json["events"].push_back(event_json(event));
  return text_of(json, 2);
}

Result<ClusterStatus> parse_status(std::string_view text) {
  const Json json = json_of_text_or_none<Json>(text);
  if (!json.is_object() || !json.contains("nodes") || !json["nodes"].is_array())
    return {Errc::kCorrupt, "the answer is not the status of a cluster"};
  ClusterStatus s;
  take(json, "incarnation", s.incarnation);
  take(json, "caution", s.caution);
  if (const Json lead = part(json, "lead"); !lead.empty()) s.lead = read_lead(lead);
  const Json counters = part(json, "counters");
  take(counters, "old_epochs", s.counters.old_epochs);
  take(counters, "unknown_links", s.counters.unknown_links);
  take(counters, "duplicate_ids", s.counters.duplicate_ids);
  take(counters, "refused", s.counters.refused);
  take(counters, "unexpected", s.counters.unexpected);
  take(counters, "plans", s.counters.plans);
  take(counters, "halts", s.counters.halts);
  for (const Json& row : rows_of(json, "jobs")) s.jobs.push_back(read_job(row));
  for (const Json& row : json["nodes"]) s.nodes.push_back(read_node(row));
  for (const Json& row : rows_of(json, "unreachable")) s.unreachable.push_back(read_unreachable(row));
  for (const Json& row : rows_of(json, "refused")) s.refused.push_back(read_refused(row));
  for (const Json& row : rows_of(json, "links")) s.links.push_back(read_link(row));
  for (const Json& row : rows_of(json, "events")) s.events.push_back(read_event(row));
  return s;
}

}  // namespace butterfly::cluster
