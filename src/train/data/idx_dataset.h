// Images and labels in IDX files, the format of MNIST and its relatives; plain or gzip.
#pragma once
#include <filesystem>
#include <vector>

#include "train/data/dataset.h"
#include "train/data/image.h"

namespace butterfly::train {

// The bytes of an IDX file of unsigned bytes, and its dimensions, outermost first.
struct IdxArray {
  std::vector<size_t> dims;
  std::vector<uint8_t> bytes;
};
// Throws Error: kNotFound, kIo, kCorrupt (naming what is wrong), kUnsupported for other element types.
IdxArray read_idx(const std::filesystem::path& path);

// In memory as bytes; values become (byte / 255 - mean) / deviation when read. Immutable after the
// constructor: any thread may read.
class IdxDataset final : public Dataset {
 public:
  // Images [count, height, width] or [count, channels, height, width], labels [count]. Throws Error as
  // read_idx; kCorrupt when counts differ.
  IdxDataset(const std::filesystem::path& images, const std::filesystem::path& labels, Normalise normalise);

  uint64_t size() const override { return labels_.dims[0]; }
  ItemShape shape() const override { return {.ids = 0, .values = pixels_, .targets = 1}; }
  void read(uint64_t item, const ItemView& into) const override;
  std::string describe() const override;
  ImageShape image() const { return image_; }
  size_t classes() const { return classes_; }

 private:
  std::string name_;
  IdxArray images_, labels_;
  ImageShape image_;
  size_t pixels_ = 0;
  size_t classes_ = 0;
  Normalise normalise_;
};

}  // namespace butterfly::train
