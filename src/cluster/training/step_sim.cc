#include "cluster/training/step_sim.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/mapped_file.h"
#include "base/pair_tree.h"
#include "base/toml_table.h"
#include "cluster/training/deal.h"

namespace butterfly::cluster {
namespace {

constexpr double kBackward = 2.0 / 3;  // of a micro-batch: twice the products of the forward pass
constexpr size_t kSimNodesMax = 4096;
constexpr uint64_t kNormBlockBytes = 65536 * 4;  // of a norm block

// Messages in the order in which they may begin: each takes the sender's link, and the receiver's.
class StepLinks {
 public:
  explicit StepLinks(const std::vector<StepSimNode>& nodes)
      : nodes_(nodes), up_(nodes.size()), down_(nodes.size()), busy_(nodes.size()) {}

  double begins(size_t from, double ready) const { return std::max(ready, up_[from]); }
  // When it has arrived.
  double send(size_t from, size_t to, double bytes, double ready) {
    // Sockets and the switch hold what the receiver's link cannot take at once, so the sender goes on.
    const double start = begins(from, ready);
    up_[from] = start + bytes / nodes_[from].bandwidth;
    down_[to] = std::max(up_[from], std::max(start, down_[to]) + bytes / nodes_[to].bandwidth);
    busy_[from] += bytes / nodes_[from].bandwidth;
    sent_ += bytes;
    return down_[to] + nodes_[from].latency_s + nodes_[to].latency_s;
  }
  double sent() const { return sent_; }
  double busiest() const { return *std::ranges::max_element(busy_); }

 private:
  const std::vector<StepSimNode>& nodes_;
  std::vector<double> up_, down_, busy_;
  double sent_ = 0;
};

struct Sending {
  double ready = 0;
  size_t from = 0, to = 0;
  double bytes = 0;
};

// Of each sender one behind the other, in the order given; of all senders the one that can begin first.
template <typename Arrived>
void send_all(StepLinks& links, const std::vector<std::vector<Sending>>& queues, Arrived arrived) {
  std::vector<size_t> next(queues.size());
  for (;;) {
    const Sending* first = nullptr;
    for (size_t i = 0; i < queues.size(); ++i) {
      if (next[i] == queues[i].size()) continue;
      const Sending& it = queues[i][next[i]];
      if (first == nullptr || links.begins(it.from, it.ready) < links.begins(first->from, first->ready))
        first = &it;
    }
    if (first == nullptr) return;
    ++next[first->from];
    arrived(*first, links.send(first->from, first->to, first->bytes, first->ready));
  }
}

}  // namespace

std::vector<StepSimMode> step_sim_modes() {
  return {{"exact", 4, false},
          {"bf16", 2, false},
          {"int8", 1 + 4.0 / 128, false},
          {"local-steps", 1 + 4.0 / 128, true},
          {"local-steps-int4", 0.5 + 4.0 / 64, true}};
}

StepSimReport simulate_step(const StepSimSpec& spec, const StepSimMode& mode) {
  const size_t n = spec.nodes.size();
  BF_CHECK(n > 0 && spec.micro_batches > 0 && spec.parameters > 0);
  std::vector<double> speeds, bandwidths;
  for (const StepSimNode& node : spec.nodes) {
    speeds.push_back(1 / node.micro_batch_s);
    bandwidths.push_back(node.bandwidth);
  }
  const std::vector<LeafRange> ranges = deal_leaves(spec.micro_batches, speeds);
  const uint64_t all_bytes = spec.parameters * 4;
  std::vector<uint64_t> blocks(all_bytes / kNormBlockBytes, kNormBlockBytes);
  if (all_bytes % kNormBlockBytes > 0) blocks.push_back(all_bytes % kNormBlockBytes);
  const std::vector<size_t> ends = cut_blocks(blocks, bandwidths, 256 << 10);

  StepSimReport report{.mode = mode.name};
  StepLinks links(spec.nodes);
  std::vector<double> prepared(n);
  std::vector<std::vector<Sending>> queues(n);
  const PairTree tree(spec.micro_batches);
  for (size_t i = 0; i < n; ++i) {
    const double last = spec.nodes[i].micro_batch_s;
    const double computed = static_cast<double>(ranges[i].size()) * last;
    report.compute_s = std::max(report.compute_s, computed + spec.nodes[i].update_s);
    prepared[i] = computed;
    if (ranges[i].empty()) continue;
    const size_t sums = mode.local ? 1 : tree.subtrees(ranges[i]).size();
    // Backward: the last parameters first.
    double done = 0;
    for (size_t owner = n; owner-- > 0;) {
      uint64_t left = 0;
      for (size_t b = owner == 0 ? 0 : ends[owner - 1]; b < ends[owner]; ++b) left += blocks[b];
      while (left > 0) {
        const uint64_t bucket = std::min(left, spec.bucket_bytes);
        left -= bucket;
        done += static_cast<double>(bucket);
        const double made =
            mode.local ? computed : computed - last * kBackward * (1 - done / static_cast<double>(all_bytes));
        // Sums before the last one have left by then; they take the link first.
        for (size_t s = 0; s < sums && owner != i; ++s)
          queues[i].push_back({made, i, owner, static_cast<double>(bucket) / 4 * mode.gradient_bytes});
      }
    }
  }
  send_all(links, queues, [&](const Sending& message, double at) {
    prepared[message.to] = std::max(prepared[message.to], at);
  });
  double decided = 0;
  for (size_t i = 0; i < n; ++i)
    decided = std::max(decided, prepared[i] + spec.nodes[i].latency_s + spec.nodes[0].latency_s);
  report.prepared_s = decided;

  queues.assign(n, {});
  double end = decided;
  for (size_t i = 0; i < n; ++i) {
    uint64_t own = 0;
    for (size_t b = i == 0 ? 0 : ends[i - 1]; b < ends[i]; ++b) own += blocks[b];
    const double ready = decided + spec.nodes[i].latency_s + spec.nodes[i].update_s;
    end = std::max(end, ready);
    // Nobody is the first receiver of all.
    for (size_t k = 1; k < n && own > 0; ++k)
      queues[i].push_back({ready, i, (i + k) % n, static_cast<double>(own)});
  }
  send_all(links, queues, [&](const Sending&, double at) { end = std::max(end, at); });
  report.step_s = end;
  report.bytes = links.sent();
  report.busiest = links.busiest() / end;
  return report;
}

StepSimSpec parse_step_sim(std::string_view text, std::string_view name) {
  const toml::table parsed = parse_toml(text, name);
  TomlTable file(parsed, name);
  StepSimSpec spec;
  spec.parameters = file.count_or("parameters", 1, 0);
  if (spec.parameters == 0 || spec.parameters > (uint64_t{1} << 40))
    file.wrong("parameters", "from 1 to 2^40 weights that learn");
  spec.micro_batches = file.count_or("micro_batches", 1, 0);
  if (spec.micro_batches == 0 || spec.micro_batches > (1u << 16))
    file.wrong("micro_batches", "from 1 to 65536");
  spec.bucket_bytes = file.count_or("bucket_bytes", 4096, spec.bucket_bytes);
  for (TomlTable& table : file.tables("node")) {
    StepSimNode node;
    const size_t count = table.count_or("count", 1, 1);
    node.name = table.has("name") ? table.string("name") : "node";
    node.micro_batch_s = 1e-3 * table.number("micro_batch_ms", 1, 1e-6);
    node.update_s = 1e-3 * table.number_or("update_ms", 1, 0, 0);
    node.bandwidth = 1e6 / 8 * table.number("mbit", 1, 1e-6);
    node.latency_s = 1e-3 * table.number_or("latency_ms", 1, 0, 0);
    if (spec.nodes.size() + count > kSimNodesMax)
      table.wrong("count", fmt::format("at most {} nodes in all", kSimNodesMax));
    spec.nodes.insert(spec.nodes.end(), count, node);
    table.no_more_keys();
  }
  if (spec.nodes.empty()) file.wrong("node", "at least one [[node]] table");
  file.no_more_keys();
  return spec;
}

StepSimSpec read_step_sim(const std::filesystem::path& path) {
  return parse_step_sim(text_of_file(path), path.string());
}

}  // namespace butterfly::cluster
