#include "cli/models/model_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "base/near_names.h"
#include "base/private_folder.h"
#include "model/formats/gguf_model.h"

namespace butterfly::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNearNamesMax = 3;

// The name of a model in a store's folder; empty for anything else that lies there.
std::string name_of(const fs::directory_entry& entry) {
  const fs::path& path = entry.path();
  const std::string file = path.filename().string();
  std::error_code ignored;
  if (file.starts_with(".")) return {};
  if (entry.is_directory(ignored)) return fs::exists(path / "config.json", ignored) ? file : std::string();
  if (const auto part = model::parse_gguf_part(path))
    return part->number == 1 ? part->prefix.filename().string() : std::string();
  const bool model = path.extension() == ".gguf" || (path.extension() == ".bin" && !file.starts_with("tok"));
  return model && entry.is_regular_file(ignored) ? path.stem().string() : std::string();
}

// The files that belong to a model: the folder's, all parts, or the one.
std::vector<fs::path> files_of(const fs::path& path) {
  std::error_code ignored;
  std::vector<fs::path> files;
  if (fs::is_directory(path, ignored)) {
    for (const auto& entry : fs::directory_iterator(path, ignored))
      if (entry.is_regular_file(ignored)) files.push_back(entry.path());
  } else if (const auto part = model::parse_gguf_part(path)) {
    for (uint32_t number = 1; number <= part->count; ++number) {
      files.push_back(model::gguf_part_path(part->prefix, number, part->count));
      if (!fs::exists(files.back(), ignored)) {
        files.pop_back();
        break;
      }
    }
  } else {
    files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

void add_folder(const fs::path& folder, bool shared, std::map<std::string, StoredModel>& models) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = name_of(entry);
    if (name.empty() || models.count(name)) continue;
    std::error_code ignored;
    // Times of files count from the year 2174: a time of zero would be younger than every file.
    StoredModel stored{name, entry.path(), 0, entry.last_write_time(ignored), shared};
    bool first = true;
    for (const fs::path& file : files_of(entry.path())) {
      const uint64_t bytes = fs::file_size(file, ignored);
      if (!ignored) stored.bytes += bytes;
      const auto modified = fs::last_write_time(file, ignored);
      if (ignored) continue;
      stored.modified = first ? modified : std::max(stored.modified, modified);
      first = false;
    }
    models.emplace(name, stored);
  }
}

// A hard link costs no space; other file systems get a copy, which appears whole or not at all.
void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(fs::canonical(from), to, error);
  if (!error) return;
  const fs::path temporary = fmt::format("{}.tmp-{}", to.string(), getpid());
  fs::copy_file(from, temporary, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(temporary, to, error);
  if (!error) return;
  const std::string words = error.message();
  fs::remove(temporary, error);
  fail(Errc::kIo, "{}: cannot copy to {}: {}", from.string(), to.string(), words);
}

std::vector<fs::path> split_list(std::string_view list) {
  std::vector<fs::path> folders;
  while (!list.empty()) {
    const size_t end = std::min(list.find(':'), list.size());
    if (end > 0) folders.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return folders;
}

}  // namespace

void check_model_name(const std::string& name) {
  if (name.empty() || name.starts_with(".") || name.find('/') != std::string::npos || name.size() > 200)
    fail(Errc::kInvalidArgument,
         "'{}' cannot be the name of a model: expected up to 200 characters without '/'", name);
}

ModelStore::ModelStore(fs::path own, std::vector<fs::path> shared)
    : own_(std::move(own)), shared_(std::move(shared)) {}

ModelStore ModelStore::of_user() {
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (data != nullptr && *data == '/')
    folder = data;
  else if (home != nullptr && *home != 0)
    folder = fs::path(home) / ".local" / "share";
  else {
    // Others can guess this name: models are taken from it only if nobody else could have put them there.
    folder = fs::temp_directory_path() / fmt::format("butterfly-{}", getuid());
    make_private_folder(folder);
  }
  const char* shared = std::getenv("BUTTERFLY_MODELS");
  return ModelStore(folder / "butterfly" / "models", split_list(shared == nullptr ? "" : shared));
}

std::vector<StoredModel> ModelStore::list() const {
  std::map<std::string, StoredModel> models;
  add_folder(own_, false, models);
  for (const fs::path& folder : shared_) add_folder(folder, true, models);
  std::vector<StoredModel> list;
  for (auto& [name, stored] : models) list.push_back(std::move(stored));
  return list;
}

fs::path ModelStore::find(const std::string& name) const {
  std::vector<std::pair<size_t, std::string>> near;
  const auto models = list();
  for (const StoredModel& stored : models) {
    if (stored.name == name || stored.path.filename() == name) return stored.path;
    size_t edits = edit_distance(name, stored.name);
    if (stored.name.starts_with(name)) edits = 0;
    if (edits <= near_edits(name)) near.emplace_back(edits, stored.name);
  }
  std::sort(near.begin(), near.end());
  if (near.size() > kNearNamesMax) near.resize(kNearNamesMax);
  std::vector<std::string> names;
  for (const auto& [edits, other] : near) names.push_back("'" + other + "'");
  if (!names.empty())
    fail(Errc::kNotFound, "{}: no such file, and no model of that name; did you mean {}?", name,
         fmt::join(names, " or "));
  fail(Errc::kNotFound,
       "{}: no such file, and no model of that name among the {} in the store ({}); 'butterfly list' shows "
       "them, 'butterfly import FILE' adds one",
       name, models.size(), own_.string());
}

std::string ModelStore::import(const fs::path& from, std::string name) const {
  std::error_code error;
  if (!fs::exists(from, error)) fail(Errc::kNotFound, "{}: no such file", from.string());
  const bool folder = fs::is_directory(from, error);
  const auto part = model::parse_gguf_part(from);
  if (name.empty()) {
    const fs::path whole = fs::canonical(from);
    name = part     ? part->prefix.filename().string()
           : folder ? whole.filename().string()
                    : from.stem().string();
  }
  check_model_name(name);
  for (const StoredModel& stored : list())
    if (stored.name == name && !stored.shared)
      fail(Errc::kInvalidArgument,
           "{}: the store has a model of that name ({}); give another name or rm it first", name,
           stored.path.string());
  const fs::path target = own_ / name;
  fs::create_directories(folder ? target : own_, error);
  if (error) fail(Errc::kIo, "{}: cannot make the folder: {}", own_.string(), error.message());
  uint32_t number = 0;
  for (const fs::path& file : files_of(from)) {
    if (folder)
      link_or_copy(file, target / file.filename());
    else if (part)
      link_or_copy(file, model::gguf_part_path(target, ++number, part->count));
    else
      link_or_copy(file, target.string() + from.extension().string());
  }
  return name;
}

void ModelStore::remove(const std::string& name) const {
  const fs::path path = find(name);
  for (const StoredModel& stored : list())
    if (stored.path == path && stored.shared)
      fail(Errc::kInvalidArgument, "{}: lies in a shared folder ({}), which is only read", name,
           path.string());
  std::error_code error;
  if (fs::is_directory(path, error)) {
    fs::remove_all(path, error);
  } else {
    for (const fs::path& file : files_of(path))
      if (!error) fs::remove(file, error);
  }
  if (error) fail(Errc::kIo, "{}: cannot remove {}: {}", name, path.string(), error.message());
}

fs::path resolve_model(const std::string& path_or_name) {
  std::error_code ignored;
  if (fs::exists(path_or_name, ignored)) return path_or_name;
  // A path was meant: its own error says more than the store's.
  if (path_or_name.find('/') != std::string::npos) return path_or_name;
  return ModelStore::of_user().find(path_or_name);
}

}  // namespace butterfly::cli
