#include "train/data/joined_dataset.h"

#include "base/check.h"

namespace butterfly::train {
namespace {

class JoinedDataset final : public Dataset {
 public:
  explicit JoinedDataset(std::vector<std::unique_ptr<Dataset>> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) {
      BF_CHECK(part->shape() == parts_[0]->shape()) << "data sets of different shapes";
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->size());
    }
  }
  uint64_t size() const override { return ends_.back(); }
  ItemShape shape() const override { return parts_[0]->shape(); }
  void read(uint64_t item, const ItemView& into) const override {
    size_t part = 0;
    while (item >= ends_[part]) ++part;
    parts_[part]->read(item - (part == 0 ? 0 : ends_[part - 1]), into);
  }
  std::string describe() const override {
    std::string text;
    for (const auto& part : parts_) text += (text.empty() ? "" : "; ") + part->describe();
    return text;
  }

 private:
  std::vector<std::unique_ptr<Dataset>> parts_;
  std::vector<uint64_t> ends_;
};

}  // namespace

std::unique_ptr<Dataset> joined(std::vector<std::unique_ptr<Dataset>> parts) {
  BF_CHECK(!parts.empty()) << "no data set";
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_unique<JoinedDataset>(std::move(parts));
}

}  // namespace butterfly::train
