#include "train/testing/crash_file_system.h"

#include "base/check.h"
#include "base/error.h"

namespace butterfly::train::testing {

namespace fs = std::filesystem;

class CrashFileSystem::File final : public OutFile {
 public:
  File(CrashFileSystem& files, std::shared_ptr<Node> node) : files_(files), node_(std::move(node)) {}
  void write(std::span<const std::byte> bytes) override {
    files_.call();
    if (bytes.size() > files_.room_) fail(Errc::kIo, "write: No space left on device");
    files_.room_ -= bytes.size();
    node_->bytes.insert(node_->bytes.end(), bytes.begin(), bytes.end());
  }
  void sync() override {
    files_.call();
    node_->synced = node_->bytes;
  }
  void close() override { files_.call(); }

 private:
  CrashFileSystem& files_;
  std::shared_ptr<Node> node_;
};

void CrashFileSystem::call() {
  if (calls_left_ == 0) throw Crash{};
  if (calls_left_ != UINT64_MAX) --calls_left_;
  ++calls_;
}

std::shared_ptr<CrashFileSystem::Node> CrashFileSystem::find(const fs::path& path) const {
  std::shared_ptr<Node> node = root_;
  for (const fs::path& part : path.relative_path()) {
    const auto it = node->entries.find(part.string());
    if (it == node->entries.end()) return nullptr;
    node = it->second;
  }
  return node;
}

std::shared_ptr<CrashFileSystem::Node> CrashFileSystem::folder_above(const fs::path& path) const {
  auto folder = find(path.parent_path());
  if (folder == nullptr || !folder->folder)
    fail(Errc::kIo, "{}: no such folder", path.parent_path().string());
  return folder;
}

std::unique_ptr<OutFile> CrashFileSystem::create(const fs::path& path) {
  call();
  auto node = std::make_shared<Node>();
  folder_above(path)->entries[path.filename().string()] = node;
  return std::make_unique<File>(*this, std::move(node));
}

void CrashFileSystem::make_folder(const fs::path& path) {
  call();
  std::shared_ptr<Node> node = root_;
  for (const fs::path& part : path.relative_path()) {
    auto& entry = node->entries[part.string()];
    if (entry == nullptr) entry = std::make_shared<Node>(Node{.folder = true});
    node = entry;
  }
}

void CrashFileSystem::rename(const fs::path& from, const fs::path& to) {
  call();
  const auto node = find(from);
  if (node == nullptr) fail(Errc::kIo, "{}: rename: no such file", from.string());
  const auto there = find(to);
  if (there != nullptr && there->folder && !there->entries.empty())
    fail(Errc::kIo, "{}: rename: Directory not empty", to.string());
  folder_above(to)->entries[to.filename().string()] = node;
  folder_above(from)->entries.erase(from.filename().string());
}

void CrashFileSystem::sync_folder(const fs::path& path) {
  call();
  const auto node = find(path);
  if (node == nullptr) fail(Errc::kIo, "{}: fsync: no such folder", path.string());
  node->synced_entries = node->entries;
}

// Entry by entry, so that a stop in the middle leaves some.
void CrashFileSystem::remove_all(const fs::path& path) {
  const auto node = find(path);
  if (node == nullptr) return;
  if (node->folder)
    for (const std::string& name : list(path)) remove_all(path / name);
  call();
  folder_above(path)->entries.erase(path.filename().string());
}

bool CrashFileSystem::exists(const fs::path& path) { return find(path) != nullptr; }

std::vector<std::string> CrashFileSystem::list(const fs::path& folder) {
  const auto node = find(folder);
  if (node == nullptr) fail(Errc::kIo, "{}: no such folder", folder.string());
  std::vector<std::string> names;
  for (const auto& [name, entry] : node->entries) names.push_back(name);
  return names;
}

class CrashFileSystem::Reader final : public InFile {
 public:
  Reader(std::shared_ptr<Node> node, uint64_t& largest) : node_(std::move(node)), largest_(largest) {}
  uint64_t size() const override { return node_->bytes.size(); }
  void read(uint64_t offset, std::span<std::byte> into) override {
    if (offset > size() || into.size() > size() - offset) fail(Errc::kIo, "the file ends too early");
    largest_ = std::max<uint64_t>(largest_, into.size());
    std::copy_n(node_->bytes.begin() + static_cast<ptrdiff_t>(offset), into.size(), into.begin());
  }

 private:
  std::shared_ptr<Node> node_;
  uint64_t& largest_;
};

std::unique_ptr<InFile> CrashFileSystem::open(const fs::path& path) {
  const auto node = find(path);
  if (node == nullptr) fail(Errc::kIo, "{}: open: No such file or directory", path.string());
  return std::make_unique<Reader>(node, largest_read_);
}

void CrashFileSystem::recover(Node& node, AfterCrash what) {
  if (what == AfterCrash::kPowerLost) {
    node.entries = node.synced_entries;
    node.bytes = node.synced;
  } else if (what == AfterCrash::kTornFiles && node.bytes != node.synced) {
    const size_t lost = node.bytes.size() - std::min(node.bytes.size(), node.synced.size());
    node.bytes.resize(node.bytes.size() - (lost + 1) / 2);
  }
  node.synced = node.bytes;
  for (auto& [name, entry] : node.entries) recover(*entry, what);
  node.synced_entries = node.entries;
}

void CrashFileSystem::restart(AfterCrash what) {
  recover(*root_, what);
  calls_left_ = UINT64_MAX;
}

void CrashFileSystem::corrupt(const fs::path& path,
                              const std::function<void(std::vector<std::byte>&)>& change) {
  const auto node = find(path);
  BF_CHECK(node != nullptr) << path;
  change(node->bytes);
}

std::vector<fs::path> CrashFileSystem::all_files() const {
  std::vector<fs::path> files;
  const std::function<void(const Node&, const fs::path&)> walk = [&](const Node& node, const fs::path& path) {
    if (!node.folder) files.push_back(path);
    for (const auto& [name, entry] : node.entries) walk(*entry, path / name);
  };
  walk(*root_, "/");
  return files;
}

}  // namespace butterfly::train::testing
