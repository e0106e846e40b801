#include "train/data/idx_dataset.h"

#include <zlib.h>

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "base/checked.h"
#include "base/error.h"

namespace butterfly::train {
namespace {

constexpr size_t kBytesMax = size_t{8} << 30;
constexpr size_t kDimsMax = 4;

// Plain files come through zlib as they are. Says how many bytes there were when there are too few.
class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& path) : name_(path.string()) {
    if (!std::filesystem::exists(path)) fail(Errc::kNotFound, "{}: no such file", name_);
    file_.reset(gzopen(name_.c_str(), "rb"));
    if (file_ == nullptr) fail(Errc::kIo, "{}: cannot be opened", name_);
  }
  void read(void* to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
      const auto piece = static_cast<unsigned>(std::min<size_t>(bytes - done, size_t{1} << 30));
      const int got = gzread(file_.get(), static_cast<char*>(to) + done, piece);
      int code = Z_OK;
      const char* words = gzerror(file_.get(), &code);
      if (got < 0 || code != Z_OK) fail(Errc::kCorrupt, "{}: {}", name_, words);
      if (got == 0)
        fail(Errc::kCorrupt, "{}: ends after {} bytes, expected {} more", name_, at_, bytes - done);
      done += static_cast<size_t>(got);
      at_ += static_cast<size_t>(got);
    }
  }
  bool at_end() {
    char next;
    return gzread(file_.get(), &next, 1) == 0;
  }
  const std::string& name() const { return name_; }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  std::string name_;
  std::unique_ptr<gzFile_s, Close> file_;
  uint64_t at_ = 0;
};

uint32_t big_endian(const uint8_t (&b)[4]) {
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path) {
  GzipFile file(path);
  uint8_t word[4];
  file.read(word, 4);
  if (word[0] != 0 || word[1] != 0 || word[3] == 0)
    fail(Errc::kCorrupt, "{}: begins with {:02x}{:02x}{:02x}{:02x}, which is no IDX file", file.name(),
         word[0], word[1], word[2], word[3]);
  if (word[2] != 0x08)
    fail(Errc::kUnsupported, "{}: element type {:#04x}; only unsigned bytes (0x08) are read", file.name(),
         word[2]);
  if (word[3] > kDimsMax)
    fail(Errc::kUnsupported, "{}: {} dimensions, up to {} are read", file.name(), word[3], kDimsMax);
  IdxArray array;
  std::optional<uint64_t> bytes = 1;
  for (int i = word[3]; i > 0; --i) {
    file.read(word, 4);
    array.dims.push_back(big_endian(word));
    if (bytes) bytes = checked_mul(*bytes, array.dims.back());
  }
  if (!bytes || *bytes > kBytesMax)
    fail(Errc::kCorrupt, "{}: says it holds more than {} bytes", file.name(), kBytesMax);
  array.bytes.resize(*bytes);
  file.read(array.bytes.data(), array.bytes.size());
  if (!file.at_end()) fail(Errc::kCorrupt, "{}: has bytes behind its {} elements", file.name(), *bytes);
  return array;
}

IdxDataset::IdxDataset(const std::filesystem::path& images, const std::filesystem::path& labels,
                       Normalise normalise)
    : name_(images.string()),
      images_(read_idx(images)),
      labels_(read_idx(labels)),
      normalise_(std::move(normalise)) {
  const auto& dims = images_.dims;
  if (dims.size() != 3 && dims.size() != 4)
    fail(Errc::kCorrupt, "{}: has {} dimensions, images have 3 or 4", name_, dims.size());
  if (labels_.dims.size() != 1 || labels_.dims[0] != dims[0])
    fail(Errc::kCorrupt, "{}: {} labels for the {} images of {}", labels.string(),
         labels_.dims.size() == 1 ? labels_.dims[0] : 0, dims[0], name_);
  image_ = {dims.size() == 4 ? dims[1] : 1, dims[dims.size() - 2], dims[dims.size() - 1]};
  pixels_ = image_.values();
  for (const uint8_t label : labels_.bytes) classes_ = std::max<size_t>(classes_, label + 1u);
}

void IdxDataset::read(uint64_t item, const ItemView& into) const {
  BF_CHECK(item < size() && into.values.size() == pixels_ && into.targets.size() == 1) << name_;
  image_to_floats(std::span(images_.bytes).subspan(item * pixels_, pixels_), image_, true, normalise_,
                  into.values);
  into.targets[0] = labels_.bytes[item];
}

std::string IdxDataset::describe() const {
  return fmt::format("{}: {} images of {}x{}x{}, {} classes", name_, size(), image_.channels, image_.height,
                     image_.width, classes_);
}

}  // namespace butterfly::train
