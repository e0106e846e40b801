// `butterfly list`, `import` and `rm`: the local store of models.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/options.h"
#include "cli/models/model_store.h"
#include "model/formats/model_file.h"

namespace butterfly::cli {
namespace {

std::time_t time_of(const StoredModel& stored) {
  const auto when = std::chrono::file_clock::to_sys(stored.modified);
  return std::chrono::system_clock::to_time_t(std::chrono::time_point_cast<std::chrono::seconds>(when));
}

// "llama Q4_K": architecture and the type of most weights; what is wrong where the file cannot be opened.
std::string type_of(const StoredModel& stored) {
  try {
    const model::ModelFile file = model::open_model(stored.path);
    const auto shares = file.type_shares();
    return fmt::format("{} {}", file.architecture(), shares.empty() ? "empty" : shares.front().type);
  } catch (const Error& error) {
    return fmt::format("({})", errc_name(error.code()));
  }
}

int list(bool json) {
  const ModelStore store = ModelStore::of_user();
  const auto models = store.list();
  if (json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const StoredModel& stored : models)
      rows.push_back({{"name", stored.name},
                      {"bytes", stored.bytes},
                      {"type", type_of(stored)},
                      {"modified", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time_of(stored)))},
                      {"path", stored.path.string()},
                      {"shared", stored.shared}});
    fmt::print("{}\n", json_text(rows, 2));
    return kExitOk;
  }
  size_t width = 4;
  for (const StoredModel& stored : models) width = std::max(width, stored.name.size());
  fmt::print("{:<{}}  {:>10}  {:<16}  {}\n", "NAME", width, "SIZE", "TYPE", "MODIFIED");
  for (const StoredModel& stored : models)
    fmt::print("{:<{}}  {:>10}  {:<16}  {:%Y-%m-%d %H:%M}{}\n", stored.name, width,
               format_bytes(stored.bytes), type_of(stored), fmt::localtime(time_of(stored)),
               stored.shared ? "  (shared)" : "");
  return kExitOk;
}

}  // namespace

CommandBody setup_list(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  add_json_flag(app, *json);
  return [json] { return list(*json); };
}

CommandBody setup_import(CLI::App& app) {
  struct Arguments {
    std::string file, name;
  };
  auto arguments = std::make_shared<Arguments>();
  add_option(app, "FILE", arguments->file, "A model file, the first part of a split one, or a folder")
      .required();
  add_option(app, "NAME", arguments->name, "Its name in the store (default: the file's)");
  return [arguments] {
    model::open_model(arguments->file);  // what cannot be read is not taken in
    const ModelStore store = ModelStore::of_user();
    const std::string name = store.import(arguments->file, arguments->name);
    fmt::print(stderr, "imported {} into {}; use it with -m {}\n", name, store.own().string(), name);
    return kExitOk;
  };
}

CommandBody setup_rm(CLI::App& app) {
  auto names = std::make_shared<std::vector<std::string>>();
  add_option(app, "NAME", *names, "Models to remove").required().repeatable();
  return [names] {
    const ModelStore store = ModelStore::of_user();
    for (const std::string& name : *names) {
      store.remove(name);
      fmt::print(stderr, "removed {}\n", name);
    }
    return kExitOk;
  };
}

}  // namespace butterfly::cli
