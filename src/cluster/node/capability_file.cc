#include "cluster/node/capability_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/cgroup.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/units.h"
#include "kernels/simd/target.h"

namespace butterfly::cluster {
namespace {

using Json = nlohmann::ordered_json;

Json rate_json(const ThreadedRate& rate) { return {{"one", rate.one}, {"all", rate.all}}; }

ThreadedRate read_rate(const Json& json) {
  return {json.at("one").get<double>(), json.at("all").get<double>()};
}

}  // namespace

std::string to_json(const Capabilities& c) {
  Json json = {{"cpu", c.cpu},
               {"target", c.target},
               {"int8_instruction", c.int8_instruction},
               {"program", c.program},
               {"numerics_id", c.numerics_id},
               {"packages", c.packages},
               {"numa_nodes", c.numa_nodes},
               {"cores", c.cores},
               {"threads", c.threads},
               {"l1d_bytes", c.l1d_bytes},
               {"l2_bytes", c.l2_bytes},
               {"l3_bytes", c.l3_bytes},
               {"ram_bytes", c.ram_bytes},
               {"ram_limit_bytes", c.ram_limit_bytes},
               {"memory_bytes_per_s", rate_json(c.memory)},
               {"f32_flops_per_s", rate_json(c.f32)},
               {"int8_ops_per_s", rate_json(c.int8)},
               {"kernels", Json::array()},
               {"disk_bytes_per_s", c.disk},
               {"cpu_share", c.cpu_share},
               {"burst_s", c.burst_s},
               {"measured_unix_s", c.measured_unix_s}};
  for (const TypeRates& row : c.kernels)
    json["kernels"].push_back({{"type", row.type},
                               {"weight_bytes_per_s", rate_json(row.weight_bytes_per_s)},
                               {"operations_per_s", rate_json(row.operations_per_s)}});
  return json_text(json, 2) + "\n";
}

Result<Capabilities> parse_capabilities(std::string_view text) {
  try {
    const Json json = json_of_text<Json>(text);
    Capabilities c;
    json.at("cpu").get_to(c.cpu);
    json.at("target").get_to(c.target);
    json.at("int8_instruction").get_to(c.int8_instruction);
    json.at("program").get_to(c.program);
    json.at("numerics_id").get_to(c.numerics_id);
    json.at("packages").get_to(c.packages);
    json.at("numa_nodes").get_to(c.numa_nodes);
    json.at("cores").get_to(c.cores);
    json.at("threads").get_to(c.threads);
    json.at("l1d_bytes").get_to(c.l1d_bytes);
    json.at("l2_bytes").get_to(c.l2_bytes);
    json.at("l3_bytes").get_to(c.l3_bytes);
    json.at("ram_bytes").get_to(c.ram_bytes);
    json.at("ram_limit_bytes").get_to(c.ram_limit_bytes);
    c.memory = read_rate(json.at("memory_bytes_per_s"));
    c.f32 = read_rate(json.at("f32_flops_per_s"));
    c.int8 = read_rate(json.at("int8_ops_per_s"));
    for (const Json& row : json.at("kernels"))
      c.kernels.push_back({row.at("type").get<std::string>(), read_rate(row.at("weight_bytes_per_s")),
                           read_rate(row.at("operations_per_s"))});
    json.at("disk_bytes_per_s").get_to(c.disk);
    c.cpu_share = json.value("cpu_share", 1.0);
    c.burst_s = json.value("burst_s", 0.0);
    json.at("measured_unix_s").get_to(c.measured_unix_s);
    return c;
  } catch (const Json::exception& error) {
    return {Errc::kCorrupt, fmt::format("[capabilities] {}", error.what())};
  }
}

MeasuredFor this_machine(const std::string& program, size_t threads) {
  const double quota = cgroup_cpu_quota().value_or(0);
  return {program,
          cpu_model_name(),
          kernels::target_name(),
          static_cast<uint32_t>(threads),
          memory_limit_bytes(),
          quota < static_cast<double>(threads) ? quota : 0};
}

std::string capability_file_name(const MeasuredFor& now) {
  return now.cpu_quota > 0 ? fmt::format("capabilities-{}-{:.2f}.json", now.threads, now.cpu_quota)
                           : fmt::format("capabilities-{}.json", now.threads);
}

std::string why_stale(const Capabilities& kept, const MeasuredFor& now, int64_t unix_s) {
  const auto differs = [](const char* what, const auto& before, const auto& after) {
    return fmt::format("{} was {}, is {}", what, before, after);
  };
  if (kept.program != now.program) return differs("the program", kept.program, now.program);
  if (kept.cpu != now.cpu) return differs("the CPU", kept.cpu, now.cpu);
  if (kept.target != now.target) return differs("the target", kept.target, now.target);
  if (kept.threads != now.threads) return differs("the number of threads", kept.threads, now.threads);
  if (kept.ram_limit_bytes != now.ram_limit_bytes)
    return differs("the memory limit", format_bytes(kept.ram_limit_bytes), format_bytes(now.ram_limit_bytes));
  const int64_t age_s = unix_s - kept.measured_unix_s;
  if (age_s > kCapabilityLife_s || age_s < -24 * 3600)
    return fmt::format("it was measured {} days ago", age_s / (24 * 3600));
  return {};
}

Capabilities load_or_measure(const StateFolder& folder, const MeasuredFor& now, int64_t unix_s, bool fresh,
                             const std::function<Capabilities()>& measure) {
  const std::string name = capability_file_name(now);
  std::string why = fresh ? "asked for" : folder.has(name) ? "" : "none are kept";
  if (why.empty()) {
    try {
      const Result<Capabilities> kept = parse_capabilities(folder.read(name));
      why = kept.ok() ? why_stale(*kept, now, unix_s) : kept.status().text();
      if (why.empty()) return *kept;
    } catch (const Error& error) {
      why = error.what();
    }
  }
  log_info("measuring this machine: {}", why);
  Capabilities measured = measure();
  measured.measured_unix_s = unix_s;
  try {
    folder.write(name, to_json(measured));
  } catch (const Error& error) {
    log_warn("cannot keep what was measured: {}", error.what());
  }
  return measured;
}

}  // namespace butterfly::cluster
