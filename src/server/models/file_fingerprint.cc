#include "server/models/file_fingerprint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file_io.h"
#include "base/sha256_stream.h"

namespace butterfly::server {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSamples = 64;
constexpr size_t kSampleBytes = 16 << 10;

// The other parts of a model that is in several files: "name-00001-of-00003.gguf".
std::set<fs::path> files_of(const fs::path& path) {
  std::set<fs::path> files;
  const auto add_like = [&](const fs::path& folder, const std::string& beginning) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.is_regular_file() && entry.path().filename().string().starts_with(beginning))
        files.insert(entry.path());
  };
  const std::string name = path.filename().string();
  const size_t of = name.rfind("-of-");
  if (fs::is_directory(path)) {
    add_like(path, "");
  } else if (of != std::string::npos && name.rfind('-', of - 1) != std::string::npos && of > 0) {
    add_like(path.has_parent_path() ? path.parent_path() : fs::path("."),
             name.substr(0, name.rfind('-', of - 1) + 1));
  } else {
    files.insert(path);
  }
  return files;
}

}  // namespace

std::string file_fingerprint(const fs::path& path) {
  Sha256Stream hash;
  const auto add = [&](const std::string& text) { hash.add(std::as_bytes(std::span(text))); };
  std::vector<std::byte> sample;
  for (const fs::path& name : files_of(path)) {
    const FileHandle file(name, O_RDONLY | O_CLOEXEC);
    struct stat about {};
    if (!file.open() || ::fstat(file.fd(), &about) != 0) throw Error(Errc::kIo, file.failed("open").text());
    const auto size = static_cast<uint64_t>(about.st_size);
    add(fmt::format("{} {} {}\n", name.filename().string(), size, nanoseconds(about.st_mtim)));
    sample.resize(std::min<uint64_t>(size, kSampleBytes));
    for (uint64_t i = 0; i < kSamples; ++i) {
      const uint64_t at = (size - sample.size()) / (kSamples - 1) * i;
      if (const Status status = file.read_at(i + 1 == kSamples ? size - sample.size() : at, sample); !status)
        throw Error(status.code(), status.text());
      hash.add(sample);
    }
  }
  return hash.hex();
}

}  // namespace butterfly::server
