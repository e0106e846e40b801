// The state of a training run on disk: whole or not at all, checked when read.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/file_system.h"

namespace butterfly::train {

// What is not tensors. Everything that decides how the run goes on.
struct RunState {
  uint64_t step = 0;         // optimizer steps done
  uint64_t data_cursor = 0;  // micro-batches read since the beginning
  uint64_t seed = 0;
  std::map<std::string, std::string> settings;  // schedule, optimizer, model …: compared by whoever goes on
  friend bool operator==(const RunState&, const RunState&) = default;
};

// One run of bytes with a name: "weights/output.weight", "adam.m".
struct StatePart {
  std::string name;
  std::span<const std::byte> bytes;
};

// Where a part stands in the checkpoint's file.
struct SavedPart {
  uint64_t offset = 0;
  size_t bytes = 0;
  std::string sha256;
};

// A checkpoint that was read once and found whole. Its parts stay on disk until read_part().
struct LoadedCheckpoint {
  RunState state;
  std::map<std::string, SavedPart> parts;
  std::string name;                  // "step-0000000200"
  std::vector<std::string> refused;  // newer ones that were damaged, and why
};

struct CheckpointOptions {
  size_t keep = 2;                       // the newest ones that stay; the best one (see mark_best) stays too
  size_t write_bytes = size_t{4} << 20;  // per call; as many are read at once to check
};

// A folder of checkpoints, each a folder step-<number> with state.bin (all parts, one behind the other) and
// manifest.json.
//
// save() writes everything into a folder with another name: parts, each synced, then the manifest with sizes
// and SHA-256 of all, synced too, then the folder. Only then it gets its real name, and the folder above is
// synced. So whatever stops it, a folder named step-<number> is whole, and those before it are untouched.
// Older ones are removed after that. One process at a time, one thread.
class CheckpointStore {
 public:
  CheckpointStore(FileSystem& files, std::filesystem::path folder, const CheckpointOptions& options = {});

  // Throws Error kIo: says what failed, and which checkpoint is still good. A step that is already there,
  // whole and the same, is left as it is; otherwise it is replaced.
  void save(const RunState& state, std::span<const StatePart> parts);

  // The newest one that is whole; empty if there is none. Damaged ones are passed over and named in
  // `refused`.
  std::optional<LoadedCheckpoint> load_latest() const;
  // This one. Throws Error kCorrupt naming the file, the expected and the found; kNotFound.
  LoadedCheckpoint load(const std::string& name) const;
  // Reads a part to where it is used, so that there is no second copy of it in memory, and checks it again.
  // Throws Error kCorrupt naming the file, the expected and the found; `into` may be changed then.
  void read_part(const LoadedCheckpoint& from, const std::string& part, std::span<std::byte> into) const;

  // Keeps this step's checkpoint whatever its age; one at a time, durable. It must exist.
  void mark_best(uint64_t step);
  std::optional<uint64_t> best() const;

  std::vector<std::string> names() const;  // oldest first; damaged ones too
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void make_folder(const std::filesystem::path& path);
  bool is_saved(const std::string& name, const std::string& manifest) const;
  void write_file(const std::filesystem::path& path, std::span<const StatePart> parts);
  void write_file(const std::filesystem::path& path, const std::string& text);
  void remove(const std::string& name);
  void remove_leftovers();

  FileSystem& files_;
  std::filesystem::path folder_;
  CheckpointOptions options_;
};

std::string checkpoint_name(uint64_t step);

}  // namespace butterfly::train
