#include "model/chat_template/text.h"

#include <algorithm>
#include <functional>

namespace butterfly::model::chat_template {

Origin TextView::origin() const {
  if (origins == nullptr) return all;
  const bool own =
      std::all_of(origins, origins + size(), [](Origin each) { return each == Origin::kTemplate; });
  return own ? Origin::kTemplate : Origin::kInput;
}

TextView TextView::substr(size_t from, size_t count) const {
  TextView result = *this;
  result.bytes = bytes.substr(from, count);
  if (origins != nullptr) result.origins = origins + from;
  return result;
}

TextView TextView::part(std::string_view inside) const {
  // std::less orders pointers of different arrays too.
  const std::less<const char*> before;
  const bool is_part = !before(inside.data(), bytes.data()) &&
                       !before(bytes.data() + bytes.size(), inside.data() + inside.size());
  if (!is_part) return {inside, Origin::kInput};
  return substr(static_cast<size_t>(inside.data() - bytes.data()), inside.size());
}

TextView Text::view() const {
  TextView view(bytes_, all_);
  if (!origins_.empty()) view.origins = origins_.data();
  return view;
}

void Text::append(TextView view) {
  if (view.empty()) return;
  if (bytes_.empty() && view.origins == nullptr) all_ = view.all;
  const bool alike = origins_.empty() && view.origins == nullptr && view.all == all_;
  if (!alike) {
    if (origins_.empty()) origins_.assign(bytes_.size(), all_);
    if (view.origins != nullptr) {
      origins_.insert(origins_.end(), view.origins, view.origins + view.size());
    } else {
      origins_.insert(origins_.end(), view.size(), view.all);
    }
  }
  bytes_ += view.bytes;
}

std::vector<ByteRange> Text::input_ranges() const {
  std::vector<ByteRange> ranges;
  const TextView text = view();
  for (size_t begin = 0; begin < text.size();) {
    const Origin origin = text.at(begin);
    size_t end = text.origins == nullptr ? text.size() : begin + 1;
    while (end < text.size() && text.at(end) == origin) ++end;
    if (origin == Origin::kInput) ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

}  // namespace butterfly::model::chat_template
