// `butterfly pull`: a model from the web into the local store.
#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/console/progress.h"
#include "cli/download/fetch_file.h"
#include "cli/download/hub.h"
#include "cli/models/model_store.h"
#include "model/formats/gguf_model.h"
#include "model/formats/model_file.h"

namespace butterfly::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kListBytesMax = 32 << 20;

struct PullOptions {
  std::string source, name;
  size_t tries = 8;
  bool quiet = false;
};

bool is_stored(const ModelStore& store, const std::string& name) {
  for (const StoredModel& stored : store.list())
    if (stored.name == name && !stored.shared) return true;
  return false;
}

// One file, with a bar for people.
FetchedFile fetch(const Url& url, const fs::path& to, FetchFileOptions options, const std::string& label,
                  const PullOptions& how) {
  options.tries = how.tries;
  std::optional<Progress> bar;
  if (!how.quiet) bar.emplace(label, options.bytes.value_or(0), ProgressUnit::kBytes);
  options.progress = [&](uint64_t done, std::optional<uint64_t> total) {
    if (bar) bar->update(done, total.value_or(0));
    if (interrupted())
      fail(Errc::kCancelled, "stopped; {} are kept: the same command goes on from there", format_bytes(done));
  };
  return fetch_file(url, to, options);
}

void report(const FetchedFile& fetched, const std::string& file, bool quiet) {
  if (quiet) return;
  const std::string kept =
      fetched.bytes_kept > 0 ? fmt::format(", {} of them from before", format_bytes(fetched.bytes_kept)) : "";
  fmt::print(stderr, "{}: {}{}, SHA-256 {} {}\n", file, format_bytes(fetched.bytes), kept,
             fetched.sha256.substr(0, 12),
             fetched.checked ? "as the server says" : "(the server names none to compare with)");
}

// A model that is here whole is opened once, so that what is wrong with it is said now.
int finish(const ModelStore& store, const std::string& name, bool quiet) {
  const fs::path path = store.find(name);
  try {
    model::open_model(path);
  } catch (const Error& error) {
    fail(error.code(), "{} is in the store now ({}), but cannot be run: {}", name, path.string(),
         error.what());
  }
  if (!quiet) fmt::print(stderr, "{} is in the store; use it with: butterfly chat {}\n", name, name);
  return kExitOk;
}

int pull_from_hub(const HubModel& model, const PullOptions& options) {
  const Url hub = hub_endpoint();
  const std::string token = hub_token();
  const std::string place = fmt::format("hf.co/{}/{}", model.owner, model.repository);
  const HttpText list = http_text(hub_list_url(hub, model), {.token = token}, kListBytesMax).or_throw();
  if (list.head.status != 200)
    fail(list.head.status == 404 ? Errc::kNotFound : Errc::kInvalidArgument, "{}: {} ({}){}", place,
         list.head.status == 404 ? "there is no such model" : "its list of files may not be read",
         list.head.status,
         list.head.status == 401 || list.head.status == 403 || list.head.status == 404
             ? "; is the name right? Private and gated models need a token in HF_TOKEN"
             : "");
  HubChoice choice = choose_files(hub_files(list.body, place), model);
  if (!options.name.empty()) choice.name = options.name;
  check_model_name(choice.name);
  const ModelStore store = ModelStore::of_user();
  if (is_stored(store, choice.name)) {
    fmt::print(stderr, "{} is in the store already; 'butterfly rm {}' first to fetch it again\n", choice.name,
               choice.name);
    return kExitOk;
  }
  // A folder appears when all of it is there.
  const fs::path folder = choice.folder ? store.own() / (".pull-" + choice.name) : store.own();
  for (size_t i = 0; i < choice.files.size(); ++i) {
    const HubFile& file = choice.files[i];
    const std::string base = file.name.substr(file.name.rfind('/') + 1);
    const fs::path to = choice.folder ? folder / base
                        : choice.files.size() > 1
                            ? model::gguf_part_path(folder / choice.name, static_cast<uint32_t>(i + 1),
                                                    static_cast<uint32_t>(choice.files.size()))
                            : fs::path((folder / choice.name).string() + ".gguf");
    std::error_code ignored;
    if (fs::exists(to, ignored) && file.bytes && fs::file_size(to, ignored) == *file.bytes) continue;
    const std::string label =
        choice.files.size() > 1 ? fmt::format("{} ({} of {})", base, i + 1, choice.files.size()) : base;
    report(
        fetch(hub_file_url(hub, model, file.name), to,
              {.token = token, .sha256 = file.sha256, .bytes = file.bytes, .progress = {}}, label, options),
        base, options.quiet);
  }
  if (choice.folder) fs::rename(folder, store.own() / choice.name);
  return finish(store, choice.name, options.quiet);
}

int pull_url(const Url& url, const PullOptions& options) {
  const std::string file = file_name_of(url);
  std::string name = options.name.empty() ? fs::path(file).stem().string() : options.name;
  const auto part = model::parse_gguf_part(file);
  if (part)
    fail(Errc::kInvalidArgument,
         "{}: one part of several; 'butterfly pull hf.co/OWNER/REPO:TYPE' fetches them all", file);
  if (options.name.empty() && !file.ends_with(".gguf") && !file.ends_with(".bin"))
    fail(Errc::kInvalidArgument,
         "{}: the address ends with no .gguf file; say what it is to be called: butterfly pull URL NAME",
         url.text());
  check_model_name(name);
  const ModelStore store = ModelStore::of_user();
  if (is_stored(store, name)) {
    fmt::print(stderr, "{} is in the store already; 'butterfly rm {}' first to fetch it again\n", name, name);
    return kExitOk;
  }
  const std::string ending = file.ends_with(".bin") ? ".bin" : ".gguf";
  // The hub's token is for the hub.
  const bool from_hub = url.same_place(hub_endpoint());
  report(
      fetch(url, store.own() / (name + ending),
            {.token = from_hub ? hub_token() : "", .sha256 = {}, .bytes = {}, .progress = {}}, file, options),
      file, options.quiet);
  return finish(store, name, options.quiet);
}

int pull(const PullOptions& options) {
  if (const auto model = parse_hub_model(options.source)) return pull_from_hub(*model, options);
  std::string source = options.source;
  // What a browser's address line shows for one file.
  if (const size_t blob = source.find("/blob/"); blob != std::string::npos)
    source.replace(blob, 6, "/resolve/");
  if (source.find("://") == std::string::npos)
    fail(Errc::kInvalidArgument,
         "'{}': expected hf.co/OWNER/REPO, hf.co/OWNER/REPO:TYPE or https://...; a file that is here "
         "already: butterfly import {}",
         source, source);
  return pull_url(parse_url(source).or_throw(), options);
}

}  // namespace

CommandBody setup_pull(CLI::App& app) {
  auto options = std::make_shared<PullOptions>();
  add_option(app, "SOURCE", options->source, "hf.co/OWNER/REPO[:TYPE], or the address of a .gguf file")
      .required();
  add_option(app, "NAME", options->name, "Its name in the store (default: the file's)");
  add_option(app, "--tries", options->tries, "Attempts in a row that bring nothing, before it gives up")
      .range(1, 1000)
      .show_default();
  add_flag(app, "-q,--quiet", options->quiet, "Say only what goes wrong");
  set_footer(app,
             "Stopped or cut off, the same command goes on where it was. Hashes are checked where the server "
             "names them.\n"
             "HF_TOKEN: token for private and gated models. HF_ENDPOINT: another hub. SSL_CERT_FILE: other "
             "authorities.");
  return [options] { return pull(*options); };
}

}  // namespace butterfly::cli
