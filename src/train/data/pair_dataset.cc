#include "train/data/pair_dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace butterfly::train {

PairDataset::PairDataset(const TokenStore& documents, size_t length, int32_t padding, std::string name)
    : name_(std::move(name)), notes_(documents.notes()), length_(length), padding_(padding) {
  for (size_t i = 0; i + 1 < documents.size(); i += 2) {
    Document chosen, rejected;
    MappedFile::guard([&] {
      chosen = documents.document(i);
      rejected = documents.document(i + 1);
    });
    if (!fits(chosen) || !fits(rejected)) {
      ++left_out_;
      continue;
    }
    put(chosen);
    put(rejected);
    ++pairs_;
  }
  if (pairs_ == 0)
    fail(Errc::kInvalidArgument,
         "{}: none of {} pairs has answers and fits into {} tokens; a larger sequence_len may help", name_,
         documents.size() / 2, length_);
}

bool PairDataset::fits(const Document& document) const {
  return document.ids.size() >= 2 && document.ids.size() - 1 <= length_ &&
         std::any_of(document.learned.begin() + 1, document.learned.end(),
                     [](bool learned) { return learned; });
}

void PairDataset::put(const Document& document) {
  const size_t at = ids_.size();
  ids_.resize(at + length_, padding_);
  targets_.resize(at + length_, kIgnoredTarget);
  for (size_t i = 0; i + 1 < document.ids.size(); ++i) {
    ids_[at + i] = document.ids[i];
    if (document.learned[i + 1]) targets_[at + i] = document.ids[i + 1];
  }
  ids_[at] = document_start(ids_[at]);
}

void PairDataset::read(uint64_t item, const ItemView& into) const {
  BF_CHECK(item < pairs_ && into.ids.size() == 2 * length_ && into.targets.size() == 2 * length_) << name_;
  const auto at = static_cast<ptrdiff_t>(item * 2 * length_);
  std::copy_n(ids_.begin() + at, 2 * length_, into.ids.begin());
  std::copy_n(targets_.begin() + at, 2 * length_, into.targets.begin());
}

std::string PairDataset::describe() const {
  std::string text = fmt::format("{}: {} pairs of answers in windows of {} tokens", name_, pairs_, length_);
  if (left_out_ > 0) text += fmt::format(", {} too long or without an answer left out", left_out_);
  if (!notes_.empty()) text += ", " + notes_;
  return text;
}

}  // namespace butterfly::train
