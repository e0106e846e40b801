// A folder of PNG and JPEG files, one sub-folder for each class.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "train/data/dataset.h"
#include "train/data/image.h"

namespace butterfly::train {

// Classes and files in order of their names, byte by byte: the same on every machine. Files are decoded when
// they are read, so prefetch threads do that work.
class ImageFolder final : public Dataset {
 public:
  // Images are brought to `image`. Files whose names do not end in .png, .jpg or .jpeg are passed over.
  // Throws Error: kNotFound, kInvalidArgument when there is no image.
  ImageFolder(const std::filesystem::path& folder, ImageShape image, Normalise normalise);

  uint64_t size() const override { return files_.size(); }
  ItemShape shape() const override { return {.ids = 0, .values = image_.values(), .targets = 1}; }
  void read(uint64_t item, const ItemView& into) const override;
  std::string describe() const override;
  const std::vector<std::string>& classes() const { return classes_; }

 private:
  struct File {
    std::filesystem::path path;
    int32_t label;
  };
  std::string name_;
  ImageShape image_;
  Normalise normalise_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

}  // namespace butterfly::train
