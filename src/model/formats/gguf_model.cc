#include "model/formats/gguf_model.h"

#include <fmt/format.h>

#include <unordered_set>

#include "base/error.h"
#include "base/printable.h"
#include "model/formats/gguf.h"

namespace butterfly::model {
namespace {

constexpr std::string_view kEnding = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;
constexpr uint32_t kPartsMax = 99999;  // what the names can count

std::optional<uint32_t> parse_digits(std::string_view text) {
  uint32_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint32_t>(c - '0');
  }
  return value;
}

// Values of a type that is read as a wider one.
NamedTensor widened(const GgufTensor& info, const Tensor& stored) {
  const auto make = [stored, type = info.stored, shape = info.shape] {
    Tensor values = Tensor::zeros(type->dtype, shape);
    MappedFile::guard([&] { type->widen(stored.raw(), values.raw(), static_cast<size_t>(shape.count())); });
    return values;
  };
  NamedTensor tensor(info.name, info.dtype, info.shape, make);
  tensor.bytes = info.bytes;
  tensor.offset = info.offset;
  tensor.stored_type = info.stored->name;
  tensor.stored = stored;
  return tensor;
}

void add_tensors(const GgufFile& file, std::vector<NamedTensor>& tensors) {
  tensors.reserve(tensors.size() + file.tensors().size());
  for (const GgufTensor& info : file.tensors())
    if (info.stored != nullptr) {
      tensors.push_back(widened(info, file.tensor(info)));
    } else {
      tensors.emplace_back(info.name, file.tensor(info), info.offset);
    }
}

Metadata without_split_keys(const Metadata& from) {
  Metadata kept(from.source());
  for (const auto& [key, value] : from.entries())
    if (!key.starts_with("split.")) kept.add(key, value);
  return kept;
}

// The parts of one model, each checked against the first.
class SplitReader {
 public:
  SplitReader(const GgufFile& first, const std::filesystem::path& path, uint32_t count, FileAccess access)
      : path_(path), count_(count), access_(access) {
    const auto name = parse_gguf_part(path);
    if (!name || name->count != count)
      fail(Errc::kCorrupt, "{}: key split.count: says {} parts, expected a name like {}", path.string(),
           count, gguf_part_path(path.parent_path() / "model", 1, count).filename().string());
    if (name->number != 1 || first.metadata().u32("split.no") != 0)
      fail(Errc::kInvalidArgument, "{}: is part {} of {}; open the first part, {}", path.string(),
           name->number, count, gguf_part_path(name->prefix, 1, count).string());
    prefix_ = name->prefix;
    add(first);
  }

  void read_rest() {
    for (uint32_t number = 2; number <= count_; ++number) {
      const std::filesystem::path part = gguf_part_path(prefix_, number, count_);
      std::error_code ignored;
      if (!std::filesystem::exists(part, ignored))
        fail(Errc::kNotFound, "{}: part {} of {} is missing: expected {}", path_.string(), number, count_,
             part.string());
      const GgufFile file = GgufFile::open(part, access_);
      check(file.metadata(), part, "split.no", number - 1);
      check(file.metadata(), part, "split.count", count_);
      add(file);
    }
  }

  std::vector<NamedTensor> tensors;
  std::vector<std::shared_ptr<MappedFile>> files;

 private:
  static void check(const Metadata& metadata, const std::filesystem::path& part, std::string_view key,
                    uint32_t expected) {
    const uint32_t found = metadata.u32(key);
    if (found != expected)
      fail(Errc::kCorrupt, "{}: key {}: expected {}, found {}", part.string(), key, expected, found);
  }
  void add(const GgufFile& file) {
    for (const GgufTensor& info : file.tensors())
      if (!names_.insert(info.name).second)
        fail(Errc::kCorrupt, "{}: tensor {}: expected once, found in an earlier part too",
             file.mapping()->path().string(), printable(info.name));
    add_tensors(file, tensors);
    files.push_back(file.mapping());
  }

  std::filesystem::path path_;
  std::filesystem::path prefix_;
  uint32_t count_;
  FileAccess access_;
  std::unordered_set<std::string> names_;
};

}  // namespace

std::optional<GgufPartName> parse_gguf_part(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits + kEnding.size();
  if (name.size() < kTail || !name.ends_with(kEnding)) return std::nullopt;
  const std::string_view tail = std::string_view(name).substr(name.size() - kTail);
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto number = parse_digits(tail.substr(1, kDigits));
  const auto count = parse_digits(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return GgufPartName{path.parent_path() / name.substr(0, name.size() - kTail), *number, *count};
}

std::filesystem::path gguf_part_path(const std::filesystem::path& prefix, uint32_t number, uint32_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix.string(), number, count);
}

std::string gguf_why_not(const ModelSource& source) {
  if (source.folder()) return "is a folder";
  return is_gguf(source.head) ? "" : "does not begin with 'GGUF'";
}

ModelFile gguf_open(const ModelSource& source, const OpenModelOptions& options) {
  GgufFile file = GgufFile::open(source.mapping);
  const std::string format = fmt::format("gguf v{}", file.version());
  const uint32_t parts = file.metadata().u32_or("split.count", 1);
  if (parts <= 1) {
    std::vector<NamedTensor> tensors;
    add_tensors(file, tensors);
    return ModelFile(format, source.path, file.take_metadata(), std::move(tensors), {source.mapping});
  }
  if (parts > kPartsMax)
    fail(Errc::kCorrupt, "{}: key split.count: expected at most {}, found {}", source.path.string(),
         kPartsMax, parts);
  SplitReader reader(file, source.path, parts, options.access);
  reader.read_rest();
  const uint64_t expected = file.metadata().u64_or("split.tensors.count", reader.tensors.size());
  if (expected != reader.tensors.size())
    fail(Errc::kCorrupt, "{}: key split.tensors.count: says {} tensors, the {} parts hold {}",
         source.path.string(), expected, parts, reader.tensors.size());
  return ModelFile(fmt::format("{}, {} parts", format, parts), source.path,
                   without_split_keys(file.metadata()), std::move(reader.tensors), std::move(reader.files));
}

}  // namespace butterfly::model
