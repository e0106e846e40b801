// Everything `serve` can be told, one row each: flag, environment, TOML key, help and bounds come from the
// same place.
#pragma once
#include <cstddef>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace butterfly::server {

struct Settings {
  std::vector<std::string> models;  // "FILE" or "name=FILE"
  std::vector<std::string> lora;    // "FILE" or "name=FILE[:SCALE]": a model of its own over the first one
  std::string tokenizer;
  bool no_mmap = false;
  bool lazy = false;    // load models when they are first asked for
  std::string schemas;  // folder of JSON schemas that those in requests may refer to

  std::string host = "127.0.0.1";
  size_t port = 8080;
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::string operator_key_file;
  std::string make_key;
  std::vector<std::string> allow_hosts;
  std::vector<std::string> allow_origins;
  std::string tls_cert;
  std::string tls_key;
  std::string management;  // path of the unix socket; empty: default_management_path()

  size_t threads = 0;
  size_t context = 0;
  size_t parallel = 16;
  size_t batch = 512;
  size_t cache_positions = 0;
  std::string cache_type = "f16";
  size_t queue = 0;  // 0: so many that waiting takes less than the answer: see model_options()
  size_t queue_tokens = 1 << 18;
  bool no_prefix_reuse = false;
  bool share_prefixes = false;
  std::string keep_prefixes;  // folder; empty: beginnings of texts end with the process
  std::string keep_prefixes_bytes = "8GiB";
  bool no_speculation = false;
  std::string predict = "auto";
  std::vector<std::string> standby;  // names of nodes that hold the journal and may lead
  std::vector<std::string> witness;  // names of nodes that vote on who leads
  std::string journal;               // file of requests whose streams outlive this process; empty: none
  std::string fine_tuning;           // folder of files and jobs of /v1/fine_tuning; empty: there is none
  std::string fine_tuning_bytes = "1GiB";  // of files of one key
  size_t fine_tuning_jobs = 32;            // of one key, with those that ended
  size_t fine_tuning_threads = 0;          // 0: half of the machine's; on a cluster those of each node
  size_t fine_tuning_nodes = 0;            // of the cluster; 0: all
  std::string train;                       // YAML of a training run beside what is served; empty: none
  bool no_rebalance = false;               // layers stay on nodes that became slow
  std::string memory;  // "12GiB": bound for all models together; empty: what the machine has free
  size_t request_seconds = 0;
  size_t key_requests = 0;  // a minute, of each API key; 0: no bound
  size_t key_tokens = 0;
  size_t key_parallel = 0;
  size_t drain_seconds = 60;
  size_t connections = 4096;

  bool cluster = false;       // the first model runs on the nodes that join this one
  size_t local_nodes = 0;     // or on so many processes of this machine, this one included
  size_t local_restarts = 5;  // of each of those that ends, in a row
  size_t nodes = 1;           // the first plan waits for so many
  size_t nodes_seconds = 10;
  size_t suspect_seconds = 1;  // without a heartbeat or progress
  size_t dead_seconds = 3;
  std::string cluster_listen;
  bool no_discovery = false;          // nodes that look for a cluster on the local network get no answer
  std::vector<std::string> training;  // output folders of training runs that the page shows
  std::string state;
  std::string strategy;
  std::string plan;  // file: who runs what, instead of a strategy
  std::string objective = "latency";
  std::string groups = "off";  // nodes that share each layer: off, auto or how many
  std::string wire = "f32";
  std::string kept_rows = "64MiB";
};

struct SettingRow {
  std::string_view flags;  // as CLI11 wants them: "-m,--model"
  std::string_view key;    // in TOML, and the long flag with '_': "model"
  std::string_view type;   // word in the help: "FILE"
  std::string_view group;
  std::string_view help;
  std::variant<std::string Settings::*, size_t Settings::*, bool Settings::*,
               std::vector<std::string> Settings::*>
      field;
  size_t min = 0, max = SIZE_MAX;  // of numbers
};
std::span<const SettingRow> setting_table();

// Fills what is not in `given` (keys) from a TOML file. Throws Error that names file, key, expected and
// found; also for a key that no row has.
void read_settings_file(const std::filesystem::path& file, const std::set<std::string, std::less<>>& given,
                        Settings& settings);

// The settings as such a file. API keys are left out.
std::string settings_as_toml(const Settings& settings);

// Where a server on this port has its unix socket: in $XDG_RUNTIME_DIR, or a folder of the user's own in
// /tmp, whose name anybody can guess: the server refuses one that others could have made, with
// check_management_folder().
std::filesystem::path default_management_path(size_t port);
void check_management_folder(const std::filesystem::path& socket);  // throws Error

}  // namespace butterfly::server
