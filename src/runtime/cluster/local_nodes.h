// A cluster of processes on this machine: the same program, started again for every other node.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace butterfly::runtime {

// A folder that only this user may look into, removed with the object: for throw-away keys and certificates.
class PrivateFolder {
 public:
  PrivateFolder();  // throws Error kIo
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Child processes that end with this one, whatever ends it. Each is bound to its share of the CPUs.
//
// Make and destroy it on a thread that lives as long as the program: the system ends children when the thread
// that started them does.
class LocalNodes {
 public:
  LocalNodes() = default;
  ~LocalNodes();  // asks them to end, waits a moment, then ends them
  LocalNodes(const LocalNodes&) = delete;
  LocalNodes& operator=(const LocalNodes&) = delete;

  // Starts this program with these arguments. `index` of `count` shares of the CPUs. Throws Error kIo.
  void start(const std::vector<std::string>& arguments, size_t index, size_t count);
  const std::vector<pid_t>& processes() const { return processes_; }

 private:
  std::vector<pid_t> processes_;
};

}  // namespace butterfly::runtime
