#include "cluster/partition/plan_file.h"

#include "base/mapped_file.h"
#include "base/toml_table.h"
#include "cluster/node/cluster_file.h"

namespace butterfly::cluster {

Plan parse_plan(std::string_view text, std::string_view name, const ClusterSpec& cluster) {
  const toml::table parsed = parse_toml(text, name);
  TomlTable file(parsed, name);
  Plan plan;
  size_t begin = 0;
  for (TomlTable& table : file.tables("stage")) {
    Stage& stage = plan.stages.emplace_back();
    if (table.has("node")) {
      stage.nodes = {node_named(cluster, table, "node", table.string("node"))};
    } else {
      for (const std::string& member : table.strings("nodes"))
        stage.nodes.push_back(node_named(cluster, table, "nodes", member));
    }
    stage.begin = begin;
    stage.end = begin += table.count_or("pieces", 1, 0);
    if (stage.size() == 0) table.wrong("pieces", "how many pieces the stage has");
    table.no_more_keys();
  }
  file.no_more_keys();
  if (plan.stages.empty()) fail(Errc::kInvalidArgument, "{}: expected at least one [[stage]]", name);
  return plan;
}

Plan read_plan(const std::filesystem::path& path, const ClusterSpec& cluster) {
  return parse_plan(text_of_file(path), path.string(), cluster);
}

}  // namespace butterfly::cluster
