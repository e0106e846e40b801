#include "cluster/node/cluster_file.h"

#include <map>

#include "base/mapped_file.h"
#include "base/toml_table.h"

namespace butterfly::cluster {
namespace {

// How a node is joined to the others: a link between two has both latencies and the lesser bandwidth.
struct Access {
  double latency_s = 0.0001;
  double bandwidth = 125e6;
};

Access read_access(TomlTable& table) {
  Access access;
  access.latency_s = table.number_or("latency_ms", 1e-3, 0, access.latency_s);
  access.bandwidth = table.number_or("bandwidth_mbit", 1e6 / 8, 1e-3, access.bandwidth);
  table.no_more_keys();
  return access;
}

// "memory_gb_s = 20" and, for one thread, "memory_one_gb_s = 12".
ThreadedRate read_rate(TomlTable& table, const std::string& key, const std::string& one_key,
                       double one_share) {
  ThreadedRate rate;
  rate.all = table.number(key, 1e9, 1e-6);
  rate.one = table.number_or(one_key, 1e9, 1e-6, rate.all * one_share);
  return rate;
}

NodeSpec read_node(TomlTable& table) {
  NodeSpec node;
  node.name = table.string("name");
  node.threads = table.count_or("threads", 1, 4);
  const double share = 1 / static_cast<double>(node.threads);
  node.memory = read_rate(table, "memory_gb_s", "memory_one_gb_s", 0.5);
  node.int8 = read_rate(table, "int8_gops", "int8_one_gops", share);
  if (table.has("f32_gflops")) {
    node.f32 = read_rate(table, "f32_gflops", "f32_one_gflops", share);
  } else {
    node.f32 = {node.int8.one / 4, node.int8.all / 4};  // a float is as wide as four int8
  }
  // A key may ask for fewer threads than the figures were taken with.
  node.threads = table.count_or("use_threads", 1, node.threads);
  node.ram_bytes = table.bytes("ram");
  node.disk = table.number_or("disk_gb_s", 1e9, 0, 0);
  node.compute_efficiency = table.number_or("compute_efficiency", 1, 1e-6, node.compute_efficiency);
  node.other_efficiency = table.number_or("other_efficiency", 1, 1e-6, node.other_efficiency);
  node.memory_efficiency = table.number_or("memory_efficiency", 1, 1e-6, node.memory_efficiency);
  node.piece_overhead_s = table.number_or("overhead_us", 1e-6, 0, 0);
  return node;
}

}  // namespace

size_t node_named(const ClusterSpec& cluster, const TomlTable& table, std::string_view key,
                  const std::string& name) {
  const auto found = cluster.find(name);
  if (!found) table.wrong(key, fmt::format("the name of a node, found '{}'", name));
  return *found;
}

ClusterSpec parse_cluster(std::string_view text, std::string_view name) {
  const toml::table parsed = parse_toml(text, name);
  TomlTable file(parsed, name);
  std::map<std::string, Access> nets;
  for (auto& [net, table] : file.named_tables("net")) nets[net] = read_access(table);

  ClusterSpec cluster;
  std::vector<Access> access;
  for (TomlTable& table : file.tables("node")) {
    const NodeSpec node = read_node(table);
    const std::string net = table.string_or("net", "");
    if (!net.empty() && !nets.contains(net))
      table.wrong("net", fmt::format("the name of a [net.NAME], found '{}'", net));
    const size_t count = table.count_or("count", 1, 1);
    for (size_t i = 0; i < count; ++i) {
      cluster.nodes.push_back(node);
      if (count > 1) cluster.nodes.back().name = fmt::format("{}{}", node.name, i + 1);
      access.push_back(net.empty() ? Access{} : nets[net]);
    }
    table.no_more_keys();
  }
  cluster.connect_all({});
  for (size_t a = 0; a < cluster.size(); ++a)
    for (size_t b = 0; b < cluster.size(); ++b)
      cluster.link(a, b) = {access[a].latency_s + access[b].latency_s,
                            std::min(access[a].bandwidth, access[b].bandwidth)};
  for (TomlTable& table : file.tables("link")) {
    const size_t from = node_named(cluster, table, "from", table.string("from"));
    const size_t to = node_named(cluster, table, "to", table.string("to"));
    LinkSpec& link = cluster.link(from, to);
    link.latency_s = table.number_or("latency_ms", 1e-3, 0, link.latency_s);
    link.bandwidth = table.number_or("bandwidth_mbit", 1e6 / 8, 1e-3, link.bandwidth);
    if (table.flag_or("both", true)) cluster.link(to, from) = link;
    table.no_more_keys();
  }
  if (file.has("coordinator"))
    cluster.coordinator = node_named(cluster, file, "coordinator", file.string("coordinator"));
  file.no_more_keys();
  try {
    cluster.check();
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", name, error.what());
  }
  return cluster;
}

ClusterSpec read_cluster(const std::filesystem::path& path) {
  return parse_cluster(text_of_file(path), path.string());
}

}  // namespace butterfly::cluster
