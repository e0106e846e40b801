#include "train/checkpoint/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "base/sha256_stream.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kManifest = "manifest.json";
constexpr std::string_view kData = "state.bin";
constexpr std::string_view kBest = "best.json";
constexpr std::string_view kUnfinished = ".unfinished";
constexpr std::string_view kRemoved = ".removed";
constexpr int kFormat = 1;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

bool is_checkpoint(const std::string& name) {
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         std::all_of(name.begin() + kPrefix.size(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Json manifest_of(const RunState& state, std::span<const StatePart> parts) {
  Json json;
  json["format"] = kFormat;
  json["step"] = state.step;
  json["data_cursor"] = state.data_cursor;
  json["seed"] = state.seed;
  json["settings"] = state.settings;
  json["parts"] = Json::array();
  for (const StatePart& part : parts)
    json["parts"].push_back(
        {{"name", part.name}, {"bytes", part.bytes.size()}, {"sha256", sha256_hex(part.bytes)}});
  return json;
}

// The manifest carries its own hash on the last line, so a bit that flips in it is found too.
std::string with_hash(const Json& manifest) {
  const std::string text = json_text(manifest, 2) + "\n";
  return text + sha256_hex(bytes_of(text)) + "\n";
}

Json parse_hashed(std::span<const std::byte> bytes, const fs::path& path) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr size_t kTail = 65;  // the hash and a newline
  if (text.size() < kTail || text.back() != '\n')
    fail(Errc::kCorrupt, "{}: is torn: {} bytes without a closing hash", path.string(), text.size());
  const std::string body = text.substr(0, text.size() - kTail);
  const std::string expected = text.substr(body.size(), kTail - 1);
  const std::string found = sha256_hex(bytes_of(body));
  if (found != expected)
    fail(Errc::kCorrupt, "{}: its SHA-256 is {}, its last line says {}", path.string(), found, expected);
  Json json = json_of_text_or_none<Json>(body);
  if (json.is_discarded()) fail(Errc::kCorrupt, "{}: is no JSON", path.string());
  return json;
}

void check_hash(const fs::path& file, const std::string& name, const SavedPart& part,
                const std::string& found) {
  if (found != part.sha256)
    fail(Errc::kCorrupt, "{}: the SHA-256 of {} is {}, the manifest says {}", file.string(), name, found,
         part.sha256);
}

}  // namespace

std::string checkpoint_name(uint64_t step) { return fmt::format("{}{:010}", kPrefix, step); }

CheckpointStore::CheckpointStore(FileSystem& files, fs::path folder, const CheckpointOptions& options)
    : files_(files), folder_(std::move(folder)), options_(options) {
  BF_CHECK(options.keep > 0 && options.write_bytes > 0) << "a store that keeps nothing";
}

std::vector<std::string> CheckpointStore::names() const {
  std::vector<std::string> names;
  if (!files_.exists(folder_)) return names;
  for (std::string& name : files_.list(folder_))
    if (is_checkpoint(name)) names.push_back(std::move(name));
  // By number: ten digits are only the usual width.
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return names;
}

void CheckpointStore::write_file(const fs::path& path, std::span<const StatePart> parts) {
  const auto file = files_.create(path);
  for (const StatePart& part : parts)
    for (size_t at = 0; at < part.bytes.size(); at += options_.write_bytes)
      file->write(part.bytes.subspan(at, std::min(options_.write_bytes, part.bytes.size() - at)));
  file->sync();
  file->close();
}

void CheckpointStore::write_file(const fs::path& path, const std::string& text) {
  const StatePart part{"", bytes_of(text)};
  write_file(path, {&part, 1});
}

// Away from its name first, so that a removal which stops half-way leaves no damaged checkpoint behind.
void CheckpointStore::remove(const std::string& name) {
  const fs::path away = folder_ / (name + std::string(kRemoved));
  files_.remove_all(away);
  files_.rename(folder_ / name, away);
  files_.sync_folder(folder_);
  files_.remove_all(away);
}

void CheckpointStore::remove_leftovers() {
  for (const std::string& name : files_.list(folder_))
    if (name.ends_with(kUnfinished) || name.ends_with(kRemoved)) files_.remove_all(folder_ / name);
}

// A folder is there for good once the one above it is synced.
void CheckpointStore::make_folder(const fs::path& path) {
  if (path.empty() || files_.exists(path)) return;
  const fs::path above = path.parent_path().empty() ? fs::path(".") : path.parent_path();
  if (above != path) make_folder(above);
  files_.make_folder(path);
  files_.sync_folder(above);
}

// A run that went on from a checkpoint comes to the same steps with the same bits.
bool CheckpointStore::is_saved(const std::string& name, const std::string& manifest) const {
  const fs::path path = folder_ / name / kManifest;
  if (!files_.exists(path)) return false;
  const std::vector<std::byte> bytes = files_.read(path);
  const std::span<const std::byte> wanted = bytes_of(manifest);
  if (!std::equal(bytes.begin(), bytes.end(), wanted.begin(), wanted.end())) return false;
  try {
    load(name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void CheckpointStore::save(const RunState& state, std::span<const StatePart> parts) {
  const std::string name = checkpoint_name(state.step);
  const fs::path unfinished = folder_ / (name + std::string(kUnfinished));
  const std::string manifest = with_hash(manifest_of(state, parts));
  try {
    make_folder(folder_);
    remove_leftovers();
    if (is_saved(name, manifest)) return;
    files_.make_folder(unfinished);
    write_file(unfinished / kData, parts);
    write_file(unfinished / kManifest, manifest);
    files_.sync_folder(unfinished);
    if (files_.exists(folder_ / name)) remove(name);
    files_.rename(unfinished, folder_ / name);
    files_.sync_folder(folder_);
  } catch (const Error& error) {
    std::string left = "there is no earlier one";
    try {
      files_.remove_all(unfinished);  // gives the room back where the disk is full
      if (const auto latest = load_latest()) left = latest->name + " is intact";
    } catch (const Error&) {
      left = "the folder cannot be read either";
    }
    fail(error.code(), "checkpoint of step {} was not written: {}; {}", state.step, error.what(), left);
  }
  std::vector<std::string> all = names();
  const std::optional<uint64_t> best_step = best();
  for (size_t i = 0; i + options_.keep < all.size(); ++i)
    if (!best_step || all[i] != checkpoint_name(*best_step)) remove(all[i]);
}

LoadedCheckpoint CheckpointStore::load(const std::string& name) const {
  const fs::path folder = folder_ / name;
  const fs::path path = folder / kManifest;
  if (!files_.exists(folder)) fail(Errc::kNotFound, "{}: no such checkpoint", folder.string());
  if (!files_.exists(path)) fail(Errc::kCorrupt, "{}: has no {}", folder.string(), kManifest);
  const Json manifest = parse_hashed(files_.read(path), path);
  LoadedCheckpoint loaded;
  loaded.name = name;
  try {
    if (manifest.at("format") != kFormat)
      fail(Errc::kUnsupported, "{}: format {}, this program reads {}", path.string(),
           json_text(manifest.at("format")), kFormat);
    loaded.state.step = manifest.at("step");
    loaded.state.data_cursor = manifest.at("data_cursor");
    loaded.state.seed = manifest.at("seed");
    loaded.state.settings = manifest.at("settings");
    uint64_t expected_bytes = 0;
    for (const Json& entry : manifest.at("parts")) expected_bytes += entry.at("bytes").get<uint64_t>();
    const fs::path data = folder / kData;
    if (!files_.exists(data)) fail(Errc::kCorrupt, "{}: is missing", data.string());
    const auto file = files_.open(data);
    if (file->size() != expected_bytes)
      fail(Errc::kCorrupt, "{}: has {} bytes, the manifest says {}", data.string(), file->size(),
           expected_bytes);
    std::vector<std::byte> room(std::min<uint64_t>(options_.write_bytes, expected_bytes));
    uint64_t at = 0;
    for (const Json& entry : manifest.at("parts")) {
      const SavedPart part{at, entry.at("bytes").get<size_t>(), entry.at("sha256")};
      Sha256Stream hash;
      for (; at < part.offset + part.bytes; at += room.size()) {
        const auto piece =
            std::span(room).first(std::min<uint64_t>(room.size(), part.offset + part.bytes - at));
        file->read(at, piece);
        hash.add(piece);
      }
      at = part.offset + part.bytes;
      const std::string part_name = entry.at("name");
      check_hash(data, part_name, part, hash.hex());
      loaded.parts.emplace(part_name, part);
    }
  } catch (const nlohmann::json::exception& error) {
    fail(Errc::kCorrupt, "{}: {}", path.string(), error.what());
  }
  if (checkpoint_name(loaded.state.step) != name)
    fail(Errc::kCorrupt, "{}: is the manifest of step {}", path.string(), loaded.state.step);
  return loaded;
}

void CheckpointStore::read_part(const LoadedCheckpoint& from, const std::string& name,
                                std::span<std::byte> into) const {
  const fs::path data = folder_ / from.name / kData;
  const auto part = from.parts.find(name);
  const size_t bytes = part == from.parts.end() ? 0 : part->second.bytes;
  if (part == from.parts.end() || bytes != into.size())
    fail(Errc::kCorrupt, "{}: {} has {} bytes, expected {}", data.string(), name, bytes, into.size());
  files_.open(data)->read(part->second.offset, into);
  check_hash(data, name, part->second, sha256_hex(into));
}

std::optional<LoadedCheckpoint> CheckpointStore::load_latest() const {
  std::vector<std::string> refused;
  std::vector<std::string> all = names();
  for (auto name = all.rbegin(); name != all.rend(); ++name) {
    try {
      LoadedCheckpoint loaded = load(*name);
      loaded.refused = std::move(refused);
      return loaded;
    } catch (const Error& error) {
      refused.push_back(error.what());
    }
  }
  if (!refused.empty())
    fail(Errc::kCorrupt, "{}: no checkpoint is whole; the newest: {}", folder_.string(), refused.front());
  return std::nullopt;
}

void CheckpointStore::mark_best(uint64_t step) {
  BF_CHECK(files_.exists(folder_ / checkpoint_name(step))) << "step " << step << " has no checkpoint";
  const fs::path unfinished = folder_ / (std::string(kBest) + std::string(kUnfinished));
  write_file(unfinished, with_hash(Json{{"step", step}}));
  files_.rename(unfinished, folder_ / kBest);
  files_.sync_folder(folder_);
}

std::optional<uint64_t> CheckpointStore::best() const {
  const fs::path path = folder_ / kBest;
  if (!files_.exists(path)) return std::nullopt;
  const Json json = parse_hashed(files_.read(path), path);
  if (!json.contains("step") || !json["step"].is_number_unsigned())
    fail(Errc::kCorrupt, "{}: names no step", path.string());
  return json["step"].get<uint64_t>();
}

}  // namespace butterfly::train
