// A file system in memory that can stop at any call, and then shows what a real one might have kept. For
// tests.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>

#include "train/checkpoint/file_system.h"

namespace butterfly::train::testing {

// Thrown in place of the call at which the machine stops. Not an Error: nothing may catch it and go on.
struct Crash {};

// What is there after a stop.
enum class AfterCrash {
  kProcessKilled,  // all calls that returned took effect
  kPowerLost,      // only what was synced: contents of files, entries of folders
  kTornFiles,      // names as after the calls, but contents that were not synced are half there
};

// Files in memory, with what a crash would leave of them. One thread.
class CrashFileSystem final : public FileSystem {
 public:
  CrashFileSystem() : root_(std::make_shared<Node>(Node{.folder = true})) {}

  // The call after `calls` more ones throws Crash, and every one behind it.
  void crash_after(uint64_t calls) { calls_left_ = calls; }
  // Writes beyond this many bytes in all throw Error kIo "No space left on device".
  void set_room(uint64_t bytes) { room_ = bytes; }
  uint64_t calls() const { return calls_; }
  // Of the reads so far, the most bytes at once.
  uint64_t largest_read() const { return largest_read_; }
  // Brings the machine up again.
  void restart(AfterCrash what);

  // Changes a byte of a file, or cuts it, behind everybody's back.
  void corrupt(const std::filesystem::path& path, const std::function<void(std::vector<std::byte>&)>& change);
  std::vector<std::filesystem::path> all_files() const;

  std::unique_ptr<OutFile> create(const std::filesystem::path& path) override;
  void make_folder(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void sync_folder(const std::filesystem::path& path) override;
  void remove_all(const std::filesystem::path& path) override;
  bool exists(const std::filesystem::path& path) override;
  std::vector<std::string> list(const std::filesystem::path& folder) override;
  std::unique_ptr<InFile> open(const std::filesystem::path& path) override;

 private:
  struct Node {
    bool folder = false;
    std::vector<std::byte> bytes = {}, synced = {};
    std::map<std::string, std::shared_ptr<Node>> entries = {}, synced_entries = {};
  };
  class File;
  class Reader;
  void call();  // counts; throws Crash
  std::shared_ptr<Node> find(const std::filesystem::path& path) const;
  std::shared_ptr<Node> folder_above(const std::filesystem::path& path) const;
  static void recover(Node& node, AfterCrash what);

  std::shared_ptr<Node> root_;
  uint64_t calls_ = 0;
  uint64_t calls_left_ = UINT64_MAX;
  uint64_t room_ = UINT64_MAX;
  uint64_t largest_read_ = 0;
};

}  // namespace butterfly::train::testing
