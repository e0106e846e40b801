#include "cli/nodes/plan_output.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "cluster/sim/sim_cluster.h"

namespace butterfly::cli {
namespace {

using Json = nlohmann::ordered_json;
using cluster::PlannedChain;
using cluster::Problem;
using cluster::SimPieces;
using cluster::Stage;

std::string ms(double seconds) {
  const double value = seconds * 1e3;
  return fmt::format("{:.{}f}", value, value < 10 ? 3 : value < 100 ? 2 : 1);
}

std::string names_of(const Problem& problem, const Stage& stage) {
  std::string names;
  for (size_t node : stage.nodes) names += (names.empty() ? "" : "+") + problem.cluster().nodes[node].name;
  return names;
}

std::string pieces_of(const Problem& problem, const Stage& stage) {
  const auto& pieces = problem.list().pieces;
  return stage.size() == 1 ? pieces[stage.begin].name
                           : fmt::format("{} - {}", pieces[stage.begin].name, pieces[stage.end - 1].name);
}

void print_question(const Problem& problem) {
  const auto& list = problem.list();
  const auto& options = problem.options();
  uint64_t weights = 0, cache = 0;
  for (const auto& piece : list.pieces) weights += piece.weight_bytes, cache += piece.kv_bytes;
  fmt::print("{}: {} pieces, {} of weights, {} of cache for {} stream{} of {} positions\n", list.model,
             list.pieces.size(), format_bytes(weights), format_bytes(cache), list.streams,
             list.streams == 1 ? "" : "s", list.context);
  if (options.objective == cluster::Objective::kLatency) {
    fmt::print("objective: time per token of one stream\n");
  } else {
    fmt::print("objective: tokens per second, batches of {}, {}\n", list.batch,
               options.batches_in_flight == 0 ? "as many as fill the pipeline"
                                              : fmt::format("{} on their way", options.batches_in_flight));
    if (options.latency_limit_s < cluster::kNever)
      fmt::print("           at most {} ms per token\n", ms(options.latency_limit_s));
  }
  if (options.prefill_weight > 0)
    fmt::print("           a token bears 1/{:.0f} of a prompt of {}\n", 1 / options.prefill_weight,
               list.prompt);
}

void print_comparison(const runtime::ModelPlan& plan) {
  // A chain gives one stream 1 / latency tokens a second, and more to several that fill it: both are shown,
  // since one beside the other's time looks like a mistake.
  fmt::print("\n{:<10} {:>10} {:>10} {:>10} {:>10} {:>7} {:>6} {:>5} {:>8} {:>11} {:>10}\n", "strategy",
             "ms/token", "one/s", "full/s", "bound ms", "gap", "stages", "hops", "balance", "sent/step",
             "planned in");
  for (const auto& outcome : plan.outcomes) {
    if (!outcome.planned) {
      fmt::print("{:<10} {}\n", outcome.strategy, outcome.planned.status().text());
      continue;
    }
    const PlannedChain& p = *outcome.planned;
    const bool bounded = p.gap < cluster::kNever;
    fmt::print("{:<10} {:>10} {:>10.3g} {:>10.3g} {:>10} {:>7} {:>6} {:>5} {:>8.2f} {:>11} {:>10}\n",
               p.strategy, ms(p.prediction.latency_s), 1 / p.prediction.latency_s, p.prediction.tokens_per_s,
               bounded ? ms(p.lower_bound_s) : "-", bounded ? fmt::format("{:.1f} %", 100 * p.gap) : "-",
               p.plan.stages.size(), p.prediction.hops, p.prediction.load_balance,
               format_bytes(static_cast<uint64_t>(p.prediction.bytes_per_step)),
               format_duration(std::chrono::nanoseconds(static_cast<int64_t>(outcome.seconds * 1e9))));
  }
  fmt::print("one/s: tokens a second of one stream; full/s: of all together when they fill the chain\n");
}

void print_stages(const Problem& problem, const PlannedChain& p) {
  size_t width = 4;
  for (const Stage& stage : p.plan.stages) width = std::max(width, names_of(problem, stage).size());
  fmt::print("\n{}:\n  {:<{}}  {:<24} {:>9} {:>9} {:>9} {:>8} {:>10} {:>10} {:>10}\n", p.strategy, "node",
             width, "pieces", "ms/step", "compute", "memory", "hop in", "weights", "cache", "room");
  for (size_t i = 0; i < p.plan.stages.size(); ++i) {
    const auto& s = p.prediction.stages[i];
    fmt::print("  {:<{}}  {:<24} {:>9} {:>9} {:>9} {:>8} {:>10} {:>10} {:>10}\n",
               names_of(problem, p.plan.stages[i]), width, pieces_of(problem, p.plan.stages[i]),
               ms(s.seconds), ms(s.compute_s), ms(s.memory_s), ms(s.hop_in.message_s),
               format_bytes(s.weight_bytes), format_bytes(s.kv_bytes), format_bytes(s.room_bytes));
  }
  const auto& q = p.prediction;
  fmt::print(
      "  back to {}: {} ms. First token of a prompt of {}: {:.2f} s. {:.1f} streams fill the pipeline.\n",
      problem.cluster().nodes[problem.cluster().coordinator].name, ms(q.hop_out.message_s),
      problem.list().prompt, q.first_token_s, q.streams_to_fill);
  if (q.load_s > 0) fmt::print("  Weights load from disk in {:.1f} s.\n", q.load_s);
  for (const std::string& reason : p.reasons) fmt::print("  - {}\n", reason);
}

Json json_of(const SimPieces& p) {
  return {{"count", p.count},
          {"weight_s", p.weight_s},
          {"prefill_weight_s", p.prefill_weight_s},
          {"decode_compute_s", p.decode_compute_s},
          {"decode_memory_s", p.decode_memory_s},
          {"prefill_compute_s", p.prefill_compute_s},
          {"prefill_memory_s", p.prefill_memory_s},
          {"overhead_s", p.overhead_s}};
}

Json json_of(const cluster::SimCluster& sim) {
  Json json;
  for (const auto& stage : sim.stages) {
    Json pieces = Json::array();
    for (const SimPieces& p : stage.pieces) pieces.push_back(json_of(p));
    json["stages"].push_back({{"name", stage.name}, {"pieces", pieces}});
  }
  for (const auto& link : sim.links)
    json["links"].push_back({{"latency_s", link.latency_s},
                             {"bandwidth", link.bandwidth},
                             {"decode_row_bytes", link.decode_row_bytes},
                             {"prefill_row_bytes", link.prefill_row_bytes}});
  return json;
}

Json json_of(const Problem& problem, const PlannedChain& p) {
  Json json;
  json["strategy"] = p.strategy;
  json["objective_s"] = p.objective_s;
  json["lower_bound_s"] = p.lower_bound_s;
  json["gap"] = p.gap < cluster::kNever ? Json(p.gap) : Json();
  json["latency_s"] = p.prediction.latency_s;
  json["tokens_per_s"] = p.prediction.tokens_per_s;
  json["bottleneck_s"] = p.prediction.bottleneck_s;
  json["first_token_s"] = p.prediction.first_token_s;
  json["streams_to_fill"] = p.prediction.streams_to_fill;
  json["load_s"] = p.prediction.load_s;
  json["load_balance"] = p.prediction.load_balance;
  json["bytes_per_step"] = p.prediction.bytes_per_step;
  json["hops"] = p.prediction.hops;
  for (size_t i = 0; i < p.plan.stages.size(); ++i) {
    const Stage& stage = p.plan.stages[i];
    const auto& s = p.prediction.stages[i];
    Json nodes = Json::array();
    for (size_t node : stage.nodes) nodes.push_back(problem.cluster().nodes[node].name);
    json["stages"].push_back({{"nodes", nodes},
                              {"shares", stage.shares},
                              {"begin", stage.begin},
                              {"end", stage.end},
                              {"pieces", pieces_of(problem, stage)},
                              {"seconds", s.seconds},
                              {"compute_s", s.compute_s},
                              {"memory_s", s.memory_s},
                              {"exchange_s", s.exchange_s},
                              {"prefill_s", s.prefill_s},
                              {"hop_in_s", s.hop_in.message_s},
                              {"weight_bytes", s.weight_bytes},
                              {"kv_bytes", s.kv_bytes},
                              {"room_bytes", s.room_bytes}});
  }
  json["hop_out_s"] = p.prediction.hop_out.message_s;
  json["reasons"] = p.reasons;
  json["simulation"] = json_of(sim_cluster(problem, p.plan));
  return json;
}

Json json_of(const cluster::Percentiles& p) {
  return {{"mean", p.mean}, {"p50", p.p50}, {"p95", p.p95}, {"p99", p.p99}, {"max", p.max}};
}

SimPieces pieces_from(const Json& json) {
  SimPieces p;
  p.count = json.at("count").get<double>();
  p.weight_s = json.at("weight_s").get<double>();
  p.prefill_weight_s = json.at("prefill_weight_s").get<double>();
  p.decode_compute_s = json.at("decode_compute_s").get<double>();
  p.decode_memory_s = json.at("decode_memory_s").get<double>();
  p.prefill_compute_s = json.at("prefill_compute_s").get<double>();
  p.prefill_memory_s = json.at("prefill_memory_s").get<double>();
  p.overhead_s = json.at("overhead_s").get<double>();
  return p;
}

}  // namespace

void print_plan(const runtime::ModelPlan& plan) {
  print_question(plan.problem);
  print_comparison(plan);
  for (const auto& outcome : plan.outcomes)
    if (outcome.planned) {
      print_stages(plan.problem, *outcome.planned);
      break;
    }
}

Json plan_json(const runtime::ModelPlan& plan) {
  const auto& list = plan.problem.list();
  const auto& options = plan.problem.options();
  Json json;
  json["model"] = list.model;
  json["objective"] = options.objective == cluster::Objective::kLatency ? "latency" : "throughput";
  json["pieces"] = list.pieces.size();
  json["batch"] = list.batch;
  json["streams"] = list.streams;
  json["context"] = list.context;
  json["batches_in_flight"] = options.batches_in_flight;
  json["coordinator"] = plan.problem.cluster().nodes[plan.problem.cluster().coordinator].name;
  for (const auto& node : plan.problem.cluster().nodes)
    json["nodes"].push_back({{"name", node.name},
                             {"threads", node.threads},
                             {"f32_flops", node.f32_rate()},
                             {"int8_ops", node.int8_rate()},
                             {"memory_bytes_per_s", node.memory_rate()},
                             {"ram_bytes", node.ram_bytes}});
  json["plans"] = Json::array();
  for (const auto& outcome : plan.outcomes) {
    if (outcome.planned) {
      Json one = json_of(plan.problem, *outcome.planned);
      one["planned_in_s"] = outcome.seconds;
      json["plans"].push_back(std::move(one));
    } else {
      json["refused"].push_back({{"strategy", outcome.strategy}, {"why", outcome.planned.status().text()}});
    }
  }
  return json;
}

PlanFile read_plan_file(const std::string& path, const std::string& strategy) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(Errc::kNotFound, "{}: no such plan; `butterfly plan MODEL --json` writes one", path);
  std::ostringstream text;
  text << in.rdbuf();
  try {
    const Json json = json_of_text<Json>(text.str());
    PlanFile out;
    out.model = json.at("model").get<std::string>();
    out.batch = json.at("batch").get<size_t>();
    out.streams = json.at("streams").get<size_t>();
    for (const Json& plan : json.at("plans")) {
      out.strategy = plan.at("strategy").get<std::string>();
      if (!strategy.empty() && out.strategy != strategy) continue;
      const Json& sim = plan.at("simulation");
      for (const Json& stage : sim.at("stages")) {
        out.cluster.stages.push_back({stage.at("name").get<std::string>(), {}});
        for (const Json& pieces : stage.at("pieces"))
          out.cluster.stages.back().pieces.push_back(pieces_from(pieces));
      }
      for (const Json& link : sim.at("links"))
        out.cluster.links.push_back({.latency_s = link.at("latency_s").get<double>(),
                                     .bandwidth = link.at("bandwidth").get<double>(),
                                     .decode_row_bytes = link.at("decode_row_bytes").get<double>(),
                                     .prefill_row_bytes = link.at("prefill_row_bytes").get<double>()});
      return out;
    }
  } catch (const nlohmann::json::exception& error) {
    fail(Errc::kCorrupt, "{}: expected a plan as `butterfly plan --json` writes it: {}", path, error.what());
  }
  fail(Errc::kNotFound, "{}: has no plan{}{}", path, strategy.empty() ? "" : " of strategy ", strategy);
}

void print_simulation(const PlanFile& plan, const cluster::SimReport& report, double seconds) {
  fmt::print("{} ({}), {} requests, {} tokens in {:.1f} s: {:.4g} tokens/s\n", plan.model, plan.strategy,
             report.requests, report.tokens, report.end_s, report.tokens_per_s);
  fmt::print("\n{:<16} {:>11} {:>11} {:>11} {:>11} {:>11}\n", "", "mean", "p50", "p95", "p99", "max");
  const auto row = [](const char* name, const cluster::Percentiles& p) {
    fmt::print("{:<16} {:>8} ms {:>8} ms {:>8} ms {:>8} ms {:>8} ms\n", name, ms(p.mean), ms(p.p50),
               ms(p.p95), ms(p.p99), ms(p.max));
  };
  row("first token", report.first_token_s);
  row("per token", report.token_s);
  row("request", report.request_s);
  fmt::print("\n{:<16} {:>8} {:>8} {:>8} {:>10} {:>8}\n", "node", "busy", "idle", "down", "steps", "queue");
  for (size_t i = 0; i < report.stages.size(); ++i) {
    const auto& s = report.stages[i];
    fmt::print("{:<16} {:>6.1f} % {:>6.1f} % {:>6.1f} % {:>10} {:>8.2f}\n", plan.cluster.stages[i].name,
               100 * s.utilisation, 100 * s.idle_s / report.end_s, 100 * s.down_s / report.end_s, s.steps,
               s.mean_queue);
  }
  fmt::print("\nlinks:");
  for (size_t i = 0; i < report.links.size(); ++i)
    fmt::print(" {} {:.1f} %",
               i < report.stages.size() ? "-> " + plan.cluster.stages[i].name : std::string("-> back"),
               100 * report.links[i].utilisation);
  fmt::print("\n");
  if (report.steps_lost > 0) fmt::print("{} steps done again after failures\n", report.steps_lost);
  fmt::print(stderr, "{} events in {:.2f} s, {:.1f} million/s\n", report.events, seconds,
             static_cast<double>(report.events) / std::max(seconds, 1e-9) / 1e6);
}

Json simulation_json(const PlanFile& plan, const cluster::SimReport& report) {
  Json json;
  json["model"] = plan.model;
  json["strategy"] = plan.strategy;
  json["seconds"] = report.end_s;
  json["requests"] = report.requests;
  json["tokens"] = report.tokens;
  json["tokens_per_s"] = report.tokens_per_s;
  json["events"] = report.events;
  json["steps_lost"] = report.steps_lost;
  json["first_token_s"] = json_of(report.first_token_s);
  json["token_s"] = json_of(report.token_s);
  json["request_s"] = json_of(report.request_s);
  for (size_t i = 0; i < report.stages.size(); ++i) {
    const auto& s = report.stages[i];
    json["nodes"].push_back({{"name", plan.cluster.stages[i].name},
                             {"busy_s", s.busy_s},
                             {"idle_s", s.idle_s},
                             {"down_s", s.down_s},
                             {"utilisation", s.utilisation},
                             {"steps", s.steps},
                             {"mean_queue", s.mean_queue}});
  }
  for (const auto& link : report.links)
    json["links"].push_back(
        {{"busy_s", link.busy_s}, {"utilisation", link.utilisation}, {"bytes", link.bytes}});
  return json;
}

void write_text_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) fail(Errc::kIo, "{}: cannot write {} bytes", path, text.size());
}

}  // namespace butterfly::cli
