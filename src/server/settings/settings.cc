#include "server/settings/settings.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/near_names.h"
#include "base/private_folder.h"
#include "cluster/partition/partitioner.h"

namespace butterfly::server {
namespace {

using S = Settings;

const std::string kStrategyHelp = "Who runs what: " + cluster::strategy_names();

const SettingRow kSettings[] = {
    {"-m,--model", "model", "[NAME=]FILE", "Models",
     "Model: GGUF, folder, or name from the store (several: repeat)", &S::models},
    {"--lora", "lora", "[NAME=]FILE[:SCALE]", "Models",
     "Adapter, served as a model of its own over the first -m (repeat)", &S::lora},
    {"--tokenizer", "tokenizer", "FILE", "Models", "Vocabulary of a llama2.c model", &S::tokenizer},
    {"--no-mmap", "no_mmap", "", "Models", "Read the model's files instead of mapping them", &S::no_mmap},
    {"--lazy", "lazy", "", "Models", "Load a model when it is first asked for", &S::lazy},
    {"--memory", "memory", "BYTES", "Models",
     "All models together, such as 12GiB; idle ones make room (default: what is free)", &S::memory},
    {"--schemas", "schemas", "FOLDER", "Models", "JSON schemas that those in requests may refer to by $id",
     &S::schemas},

    {"--host", "host", "ADDRESS", "Network", "Address to listen on; others than 127.0.0.1 need an API key",
     &S::host},
    {"--port", "port", "N", "Network", "Port; 0: any free one", &S::port, 0, 65535},
    {"--api-key", "api_key", "KEY", "Network", "Key clients must send (several: repeat)", &S::api_keys},
    {"--api-key-file", "api_key_file", "FILE", "Network",
     "Keys or their hashes, one per line; 'background' behind one: its requests come after others'",
     &S::api_key_file},
    {"--operator-key-file", "operator_key_file", "FILE", "Network",
     "Keys of those who may also remove nodes and make join lines over HTTP", &S::operator_key_file},
    {"--make-key", "make_key", "FILE", "Network", "Make a key, add its hash to FILE, show it, and end",
     &S::make_key},
    {"--allow-host", "allow_host", "NAME", "Network", "Name clients may call this server by (repeat)",
     &S::allow_hosts},
    {"--allow-origin", "allow_origin", "URL", "Network", "Page that may use this server (repeat)",
     &S::allow_origins},
    {"--tls-cert", "tls_cert", "FILE", "Network", "HTTPS: certificate chain (PEM)", &S::tls_cert},
    {"--tls-key", "tls_key", "FILE", "Network", "HTTPS: its key (PEM)", &S::tls_key},
    {"--management", "management", "PATH", "Network", "Unix socket for ps and stop", &S::management},
    {"--connections", "connections", "N", "Network", "Open connections; idle ones make room", &S::connections,
     1, 1 << 20},

    {"-t,--threads", "threads", "N", "Engine", "Compute threads; 0: every CPU this process may use",
     &S::threads, 0, 1024},
    {"-c,--ctx-size", "ctx_size", "N", "Engine",
     "Positions of one request; 0: the model's, as far as memory allows (on a cluster: at most 4096)",
     &S::context, 0, 1 << 24},
    {"--parallel", "parallel", "N", "Engine", "Requests that advance at once", &S::parallel, 1, 1024},
    {"-b,--batch-size", "batch_size", "N", "Engine", "Rows of one step", &S::batch, 1, 512},
    {"--cache-positions", "cache_positions", "N", "Engine",
     "Key/value cache, shared by all requests; 0: four contexts, as far as memory allows",
     &S::cache_positions, 0, 1 << 28},
    {"--cache-type", "cache_type", "TYPE", "Engine",
     "Key/value cache: f16, f32, or q8_0, which takes half of f16's memory", &S::cache_type},
    {"--queue", "queue", "N", "Engine", "Requests that wait; more are answered 429. 0: as many as --parallel",
     &S::queue, 0, 1 << 16},
    {"--queue-tokens", "queue_tokens", "N", "Engine", "Prompt tokens that wait", &S::queue_tokens, 1,
     SIZE_MAX >> 1},
    {"--no-prefix-reuse", "no_prefix_reuse", "", "Engine", "Compute every prompt from its beginning",
     &S::no_prefix_reuse},
    {"--share-prefixes", "share_prefixes", "", "Engine",
     "Let API keys reuse each other's prompts: saves work, and shows each what the others began with",
     &S::share_prefixes},
    {"--keep-prefixes", "keep_prefixes", "FOLDER", "Engine",
     "What was read of prompts outlives this process, here: conversations go on at once after a restart. Not "
     "on "
     "a cluster",
     &S::keep_prefixes},
    {"--keep-prefixes-bytes", "keep_prefixes_bytes", "BYTES", "Engine",
     "At most so much of it; the longest unused goes first", &S::keep_prefixes_bytes},
    {"--journal", "journal", "FILE", "Engine",
     "Streams can be gone on with after this server was restarted: their requests are kept here",
     &S::journal},
    {"--standby", "standby", "NAME", "Cluster",
     "A node that holds the journal and takes over when this machine is gone ('butterfly serve' runs there; "
     "repeat)",
     &S::standby},
    {"--witness", "witness", "NAME", "Cluster",
     "A node that votes on who leads: with three voters or more the standby takes over by itself (repeat)",
     &S::witness},
    {"--no-speculation", "no_speculation", "", "Engine", "Never guess tokens ahead", &S::no_speculation},
    {"--mtp", "mtp", "N", "Engine",
     "Tokens that the model's own block guesses in each step, where the file has one (multi-token "
     "prediction): auto, as many as pay; off; or a number. Not on a cluster",
     &S::predict},
    {"--key-requests", "key_requests", "N", "Engine", "Requests a minute of one API key; 0: no bound",
     &S::key_requests, 0, 1 << 24},
    {"--key-tokens", "key_tokens", "N", "Engine", "Tokens a minute of one API key, read and written",
     &S::key_tokens, 0, SIZE_MAX >> 1},
    {"--key-parallel", "key_parallel", "N", "Engine", "Requests of one API key at once", &S::key_parallel, 0,
     1 << 16},
    {"--request-time", "request_time", "SECONDS", "Engine", "A request ends after so long; 0: no bound",
     &S::request_seconds, 0, 1 << 24},
    {"--drain-time", "drain_time", "SECONDS", "Engine", "After SIGTERM running requests have so long",
     &S::drain_seconds, 0, 3600},

    {"--cluster", "cluster", "", "Cluster",
     "Run the first model on this machine and those that join it (after 'init')", &S::cluster},
    {"--local-nodes", "local_nodes", "N", "Cluster",
     "Run it on N processes of this machine: a cluster to try", &S::local_nodes, 0, 64},
    {"--local-restarts", "local_restarts", "N", "Cluster",
     "Start such a process again when it ends, at most so often in a row", &S::local_restarts, 0, 1000},
    {"--nodes", "nodes", "N", "Cluster", "Wait for so many nodes, this one included, before the first plan",
     &S::nodes, 1, 256},
    {"--nodes-wait", "nodes_wait", "SECONDS", "Cluster", "But not longer than this", &S::nodes_seconds, 0,
     86400},
    {"--suspect-after", "suspect_after", "SECONDS", "Cluster",
     "A node without a heartbeat for so long is suspect, and gets nothing new", &S::suspect_seconds, 1, 60},
    {"--dead-after", "dead_after", "SECONDS", "Cluster",
     "And after so long dead: the others go on without it. More for networks that stutter", &S::dead_seconds,
     2, 120},
    {"--no-rebalance", "no_rebalance", "", "Cluster", "Leave layers where they are when a node becomes slow",
     &S::no_rebalance},
    {"--fine-tuning", "fine_tuning", "FOLDER", "Fine-tuning",
     "Clients may upload files and make adapters from them (/v1/files, /v1/fine_tuning/jobs): kept here",
     &S::fine_tuning},
    {"--fine-tuning-bytes", "fine_tuning_bytes", "BYTES", "Fine-tuning", "Files of one API key",
     &S::fine_tuning_bytes},
    {"--fine-tuning-jobs", "fine_tuning_jobs", "N", "Fine-tuning",
     "Jobs of one API key, with those whose models are kept", &S::fine_tuning_jobs, 1, 1000},
    {"--fine-tuning-threads", "fine_tuning_threads", "N", "Fine-tuning",
     "Threads that train, which come after all others; 0: half of this machine's", &S::fine_tuning_threads, 0,
     1024},
    {"--fine-tuning-nodes", "fine_tuning_nodes", "N", "Fine-tuning",
     "On a cluster: train on so many of its nodes, this one included; 0: on all that have the memory",
     &S::fine_tuning_nodes, 0, 256},
    {"--train", "train", "FILE", "Cluster",
     "Train beside what is served, and after it: a YAML file as for 'train'. Nodes that have the memory take "
     "part",
     &S::train},
    {"--cluster-listen", "cluster_listen", "ADDRESS", "Cluster", "Where nodes join (default: 0.0.0.0:7741)",
     &S::cluster_listen},
    {"--no-discovery", "no_discovery", "", "Cluster",
     "Do not answer machines that look for a cluster on the local network ('join --token' without an "
     "address)",
     &S::no_discovery},
    {"--training", "training", "FOLDER", "Network",
     "Show this training run in the page: the output_dir of 'butterfly train' (repeat)", &S::training},
    {"--state", "state", "FOLDER", "Cluster", "Keys and certificates (default: ~/.local/state/butterfly)",
     &S::state},
    {"--strategy", "strategy", "NAME", "Cluster", kStrategyHelp, &S::strategy},
    {"--plan", "plan", "FILE", "Cluster",
     "Who runs what, as this file says: TOML of [[stage]]s, nodes by name", &S::plan},
    {"--plan-for", "plan_for", "WHAT", "Cluster", "What plans are best at: latency or throughput",
     &S::objective},
    {"--groups", "groups", "WHAT", "Cluster",
     "Nodes that share each layer, for one stream that is faster: off, auto (where it pays) or how many",
     &S::groups},
    {"--wire", "wire", "TYPE", "Cluster",
     "Rows between nodes: f32 is exact; f16 and int8 are smaller and lossy", &S::wire},
    {"--kept-rows", "kept_rows", "BYTES", "Cluster",
     "Rows that a node keeps of what it sent on, for the case that the next one is lost; 0: keep nothing "
     "when plans change, read "
     "all texts again",
     &S::kept_rows},
};

template <typename... F>
struct Overload : F... {
  using F::operator()...;
};
template <typename... F>
Overload(F...) -> Overload<F...>;

std::string type_word(const toml::node& node) {
  std::ostringstream out;
  out << node.type();
  return out.str();
}

class Reader {
 public:
  Reader(std::string file, Settings& settings) : file_(std::move(file)), settings_(settings) {}

  void read(const SettingRow& row, const toml::node& node) const {
    const auto wrong = [&](std::string_view expected) {
      fail(Errc::kInvalidArgument, "{}:{}: {}: expected {}, found {}", file_, node.source().begin.line,
           row.key, expected, type_word(node));
    };
    std::visit(Overload{
                   [&](std::string S::*field) {
                     const auto value = node.value_exact<std::string>();
                     if (!value) wrong("a string");
                     settings_.*field = *value;
                   },
                   [&](size_t S::*field) {
                     const auto value = node.value_exact<int64_t>();
                     if (!value) wrong("an integer");
                     if (*value < 0 || static_cast<size_t>(*value) < row.min ||
                         static_cast<size_t>(*value) > row.max)
                       fail(Errc::kInvalidArgument, "{}:{}: {}: expected {} to {}, found {}", file_,
                            node.source().begin.line, row.key, row.min, row.max, *value);
                     settings_.*field = static_cast<size_t>(*value);
                   },
                   [&](bool S::*field) {
                     const auto value = node.value_exact<bool>();
                     if (!value) wrong("true or false");
                     settings_.*field = *value;
                   },
                   [&](std::vector<std::string> S::*field) {
                     std::vector<std::string> list;
                     if (const auto one = node.value_exact<std::string>()) {
                       list.push_back(*one);
                     } else if (const toml::array* array = node.as_array()) {
                       for (const toml::node& element : *array) {
                         const auto value = element.value_exact<std::string>();
                         if (!value) wrong("strings");
                         list.push_back(*value);
                       }
                     } else {
                       wrong("a string or an array of strings");
                     }
                     settings_.*field = std::move(list);
                   },
               },
               row.field);
  }

 private:
  std::string file_;
  Settings& settings_;
};

std::string quoted(const std::string& text) {
  std::ostringstream out;
  out << toml::node_view(toml::value<std::string>(text));
  return out.str();
}

}  // namespace

std::span<const SettingRow> setting_table() { return kSettings; }

void read_settings_file(const std::filesystem::path& file, const std::set<std::string, std::less<>>& given,
                        Settings& settings) {
  toml::table table;
  try {
    table = toml::parse_file(file.string());
  } catch (const toml::parse_error& error) {
    fail(Errc::kInvalidArgument, "{}:{}: {}", file.string(), error.source().begin.line, error.description());
  }
  const Reader reader(file.string(), settings);
  for (const auto& [key, node] : table) {
    const auto row = std::find_if(std::begin(kSettings), std::end(kSettings),
                                  [&](const SettingRow& r) { return r.key == key.str(); });
    if (row == std::end(kSettings)) {
      std::vector<std::string_view> names;
      for (const SettingRow& r : kSettings) names.push_back(r.key);
      fail(Errc::kInvalidArgument, "{}:{}: no setting '{}'{} (--print-config shows them all)", file.string(),
           node.source().begin.line, key.str(), did_you_mean(key.str(), names));
    }
    if (!given.contains(row->key)) reader.read(*row, node);
  }
}

std::string settings_as_toml(const Settings& settings) {
  std::string out, group;
  for (const SettingRow& row : kSettings) {
    if (row.key == "api_key" || row.key == "make_key") continue;
    if (row.group != group) {
      out += fmt::format("{}# {}\n", group.empty() ? "" : "\n", row.group);
      group = row.group;
    }
    std::visit(
        Overload{
            [&](std::string S::*field) { out += fmt::format("{} = {}", row.key, quoted(settings.*field)); },
            [&](size_t S::*field) { out += fmt::format("{} = {}", row.key, settings.*field); },
            [&](bool S::*field) { out += fmt::format("{} = {}", row.key, settings.*field); },
            [&](std::vector<std::string> S::*field) {
              out += fmt::format("{} = [", row.key);
              for (size_t i = 0; i < (settings.*field).size(); ++i)
                out += (i == 0 ? "" : ", ") + quoted((settings.*field)[i]);
              out += "]";
            },
        },
        row.field);
    out += fmt::format("  # {}\n", row.help);
  }
  return out;
}

std::filesystem::path default_management_path(size_t port) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::filesystem::path folder;
  if (runtime != nullptr && *runtime == '/') {
    folder = std::filesystem::path(runtime) / "butterfly";
  } else {
    folder = std::filesystem::temp_directory_path() / fmt::format("butterfly-{}", getuid());
  }
  return folder / fmt::format("serve-{}.sock", port);
}

void check_management_folder(const std::filesystem::path& socket) {
  try {
    make_private_folder(socket.parent_path());
  } catch (const Error& error) {
    fail(error.code(), "{}; remove it, set XDG_RUNTIME_DIR, or choose a place with --management PATH",
         error.what());
  }
}

}  // namespace butterfly::server
