#include "train/data/image_folder.h"

#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "base/error.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(it->path());
  if (error) fail(Errc::kIo, "{}: {}", folder.string(), error.message());
  std::sort(entries.begin(), entries.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return entries;
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& folder, ImageShape image, Normalise normalise)
    : name_(folder.string()), image_(image), normalise_(std::move(normalise)) {
  if (!fs::is_directory(folder)) fail(Errc::kNotFound, "{}: no such folder", name_);
  for (const fs::path& sub : sorted_entries(folder)) {
    if (!fs::is_directory(sub)) continue;
    const auto label = static_cast<int32_t>(classes_.size());
    const size_t before = files_.size();
    for (const fs::path& file : sorted_entries(sub))
      if (is_image(file)) files_.push_back({file, label});
    if (files_.size() > before) classes_.push_back(sub.filename().string());
  }
  if (files_.empty())
    fail(Errc::kInvalidArgument, "{}: has no sub-folder with .png, .jpg or .jpeg files", name_);
}

void ImageFolder::read(uint64_t item, const ItemView& into) const {
  BF_CHECK(item < files_.size()) << item;
  const File& file = files_[item];
  const Image image = resize_image(read_image(file.path, image_.channels), image_.height, image_.width);
  image_to_floats(image.bytes, image_, false, normalise_, into.values);
  into.targets[0] = file.label;
}

std::string ImageFolder::describe() const {
  return fmt::format("{}: {} images brought to {}x{}x{}, {} classes", name_, files_.size(), image_.channels,
                     image_.height, image_.width, classes_.size());
}

}  // namespace butterfly::train
