#include "cluster/sim/workload_file.h"

#include "base/mapped_file.h"
#include "base/toml_table.h"

namespace butterfly::cluster {
namespace {

size_t stage_named(const SimCluster& cluster, TomlTable& table) {
  const std::string name = table.string("node");
  for (size_t i = 0; i < cluster.stages.size(); ++i)
    if (cluster.stages[i].name == name) return i;
  table.wrong("node", fmt::format("a node that the plan uses, found '{}'", name));
}

// "prompt = 128", or from and to: "prompt = 64" and "prompt_max = 256".
void read_range(TomlTable& table, const std::string& key, size_t least, size_t& low, size_t& high) {
  low = table.count_or(key, least, low);
  high = table.count_or(key + "_max", low, low);
}

}  // namespace

Workload parse_workload(std::string_view text, std::string_view name, const SimCluster& cluster) {
  const toml::table parsed = parse_toml(text, name);
  TomlTable file(parsed, name);
  Workload w;
  w.requests = file.count_or("requests", 1, w.requests);
  w.rate = file.number_or("rate", 1, 0, w.rate);
  w.clients = file.count_or("clients", 1, w.clients);
  if (file.has("rate") && file.has("clients"))
    file.wrong("clients", "either a rate of arrivals or clients, not both");
  read_range(file, "prompt", 0, w.prompt_min, w.prompt_max);
  read_range(file, "generate", 1, w.generate_min, w.generate_max);
  w.batch_max = file.count_or("batch", 1, w.batch_max);
  w.rows_max = file.count_or("rows", 1, w.rows_max);
  w.streams_max = file.count_or("streams", 1, w.streams_max);
  w.seed = file.count_or("seed", 0, w.seed);
  for (TomlTable& table : file.tables("slowdown")) {
    Slowdown& s = w.slowdowns.emplace_back();
    s.stage = stage_named(cluster, table);
    s.from_s = table.number_or("from_s", 1, 0, 0);
    s.to_s = table.number_or("to_s", 1, s.from_s, 1e18);
    s.factor = table.number("factor", 1, 1e-6);
    table.no_more_keys();
  }
  for (TomlTable& table : file.tables("failure")) {
    Failure& f = w.failures.emplace_back();
    f.stage = stage_named(cluster, table);
    f.at_s = table.number("at_s", 1, 0);
    f.recovery_s = table.number("recovery_s", 1, 0);
    f.replay = table.flag_or("replay", true);
    table.no_more_keys();
  }
  file.no_more_keys();
  return w;
}

Workload read_workload(const std::filesystem::path& path, const SimCluster& cluster) {
  return parse_workload(text_of_file(path), path.string(), cluster);
}

}  // namespace butterfly::cluster
