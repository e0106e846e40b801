#include "train/data/token_dataset.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/check.h"
#include "base/error.h"

namespace butterfly::train {
namespace {

size_t bytes_of(TokenWidth width) { return width == TokenWidth::kU16 ? 2 : 4; }

}  // namespace

TokenDataset::TokenDataset(size_t length, size_t vocabulary, std::string name)
    : name_(std::move(name)), length_(length), vocabulary_(vocabulary) {
  if (length == 0) fail(Errc::kInvalidArgument, "{}: windows of 0 tokens", name_);
}

TokenDataset::TokenDataset(std::vector<int32_t> ids, size_t length, size_t vocabulary, std::string name)
    : TokenDataset(length, vocabulary, std::move(name)) {
  check_count(ids.size());
  ids_ = std::move(ids);
}

std::unique_ptr<TokenDataset> TokenDataset::open(const std::filesystem::path& path, TokenWidth width,
                                                 size_t length, size_t vocabulary) {
  std::unique_ptr<TokenDataset> data(new TokenDataset(length, vocabulary, path.string()));
  data->file_ = MappedFile::open(path);
  data->width_ = width;
  const size_t bytes = data->file_->bytes().size();
  if (bytes % bytes_of(width) != 0)
    fail(Errc::kCorrupt, "{}: {} bytes are not a whole number of {}-bit token ids", path.string(), bytes,
         8 * bytes_of(width));
  data->check_count(bytes / bytes_of(width));
  return data;
}

void TokenDataset::check_count(uint64_t tokens) {
  if (tokens < length_ + 1)
    fail(Errc::kInvalidArgument, "{}: has {} tokens, one window of {} needs {}", name_, tokens, length_,
         length_ + 1);
  tokens_ = tokens;
}

int32_t TokenDataset::token(uint64_t at) const {
  uint32_t id = 0;
  if (file_ == nullptr) {
    id = static_cast<uint32_t>(ids_[at]);
  } else {
    std::memcpy(&id, file_->bytes().data() + at * bytes_of(width_), bytes_of(width_));
  }
  if (id >= vocabulary_)
    fail(Errc::kCorrupt, "{}: token {} is {}, the vocabulary has {}", name_, at, id, vocabulary_);
  return static_cast<int32_t>(id);
}

void TokenDataset::read(uint64_t item, const ItemView& into) const {
  BF_CHECK(item < size() && into.ids.size() == length_ && into.targets.size() == length_) << name_;
  const uint64_t begin = item * length_;
  for (size_t i = 0; i < length_; ++i) into.ids[i] = token(begin + i);
  std::copy(into.ids.begin() + 1, into.ids.end(), into.targets.begin());
  into.targets.back() = token(begin + length_);
}

std::string TokenDataset::describe() const {
  return fmt::format("{}: {} tokens in {} windows of {}", name_, tokens_, size(), length_);
}

void write_token_file(const std::filesystem::path& path, std::span<const int32_t> ids, TokenWidth width) {
  std::ofstream out(path, std::ios::binary);
  for (const int32_t id : ids) {
    if (id < 0 || (width == TokenWidth::kU16 && id > 0xffff))
      fail(Errc::kInvalidArgument, "{}: token id {} does not fit {} bits", path.string(), id,
           8 * bytes_of(width));
    out.write(reinterpret_cast<const char*>(&id), static_cast<std::streamsize>(bytes_of(width)));
  }
  out.close();
  if (!out) fail(Errc::kIo, "{}: cannot be written", path.string());
}

DocumentDataset::DocumentDataset(std::span<const Document> documents, size_t length, int32_t padding,
                                 std::string name, bool packed, std::string notes)
    : name_(std::move(name)), length_(length), padding_(padding), packed_(packed), notes_(std::move(notes)) {
  if (length == 0) fail(Errc::kInvalidArgument, "{}: windows of 0 tokens", name_);
  used_ = length;  // the first document opens the first window
  for (const Document& document : documents) {
    const std::span<const int32_t> ids = document.ids;
    if (ids.size() < 2) {
      ++left_out_;
      continue;
    }
    ++documents_;
    cut_ += ids.size() - 1 > length;
    std::vector<int32_t> targets(ids.begin() + 1, ids.end());
    for (size_t i = 0; i < targets.size() && !document.learned.empty(); ++i)
      if (!document.learned[i + 1]) targets[i] = kIgnoredTarget;
    // The last id leads to nothing that could be learned, but whatever follows in the window should see it,
    // as the next turn of a chat sees the end of the last one.
    if (targets.size() % length != 0) targets.push_back(kIgnoredTarget);
    for (size_t begin = 0; begin < targets.size(); begin += length) {
      const size_t count = std::min(length, targets.size() - begin);
      const std::span<const int32_t> stretch = std::span<const int32_t>(targets).subspan(begin, count);
      if (std::count(stretch.begin(), stretch.end(), kIgnoredTarget) == std::ssize(stretch)) {
        ++without_target_;
        continue;
      }
      put(ids.subspan(begin, count), stretch);
    }
  }
  if (windows_ == 0)
    fail(Errc::kInvalidArgument,
         "{}: nothing in it can be learned: {} documents of less than two tokens, {} stretches of {} tokens "
         "without an answer; a larger sequence_len may help",
         name_, left_out_, without_target_, length);
  targets_ = static_cast<uint64_t>(std::count_if(targets_of_.begin(), targets_of_.end(),
                                                 [](int32_t target) { return target != kIgnoredTarget; }));
}

void DocumentDataset::put(std::span<const int32_t> ids, std::span<const int32_t> targets) {
  if (!packed_ || used_ + ids.size() > length_) {
    ++windows_;
    used_ = 0;
    ids_.resize(windows_ * length_, padding_);
    targets_of_.resize(windows_ * length_, kIgnoredTarget);
  }
  const auto at = static_cast<ptrdiff_t>((windows_ - 1) * length_ + used_);
  std::copy(ids.begin(), ids.end(), ids_.begin() + at);
  ids_[static_cast<size_t>(at)] = document_start(ids[0]);
  std::copy(targets.begin(), targets.end(), targets_of_.begin() + at);
  used_ += ids.size();
}

void DocumentDataset::read(uint64_t item, const ItemView& into) const {
  BF_CHECK(item < windows_ && into.ids.size() == length_ && into.targets.size() == length_) << name_;
  std::copy_n(ids_.begin() + static_cast<ptrdiff_t>(item * length_), length_, into.ids.begin());
  std::copy_n(targets_of_.begin() + static_cast<ptrdiff_t>(item * length_), length_, into.targets.begin());
}

std::string DocumentDataset::describe() const {
  std::string text =
      fmt::format("{}: {} documents in {} windows of {} tokens, {:.1f} % filled", name_, documents_, windows_,
                  length_, 100.0 * static_cast<double>(targets_) / static_cast<double>(windows_ * length_));
  if (cut_ > 0) text += fmt::format(", {} cut", cut_);
  if (left_out_ > 0) text += fmt::format(", {} too short", left_out_);
  if (without_target_ > 0) text += fmt::format(", {} stretches without an answer left out", without_target_);
  if (!notes_.empty()) text += ", " + notes_;
  return text;
}

}  // namespace butterfly::train
