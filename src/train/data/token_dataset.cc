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

namespace {

std::shared_ptr<const TokenStore> store_of(std::span<const Document> documents) {
  auto store = std::make_shared<TokenStore>();
  for (const Document& document : documents) store->add(document);
  return store;
}

}  // namespace

DocumentDataset::DocumentDataset(std::span<const Document> documents, size_t length, int32_t padding,
                                 std::string name, bool packed)
    : DocumentDataset(store_of(documents), length, padding, std::move(name), packed) {}

DocumentDataset::DocumentDataset(std::shared_ptr<const TokenStore> documents, size_t length, int32_t padding,
                                 std::string name, bool packed, size_t vocabulary)
    : store_(std::move(documents)),
      name_(std::move(name)),
      length_(length),
      padding_(padding),
      packed_(packed),
      vocabulary_(vocabulary) {
  if (length == 0) fail(Errc::kInvalidArgument, "{}: windows of 0 tokens", name_);
  used_ = length;  // the first document opens the first window
  MappedFile::guard([&] {
    for (size_t d = 0; d < store_->size(); ++d) {
      const TokenWords words = (*store_)[d];
      if (words.size() < 2) {
        ++left_out_;
        continue;
      }
      ++documents_;
      cut_ += words.size() - 1 > length;
      // The last id leads to nothing that could be learned, but whatever follows in the window should see it,
      // as the next turn of a chat sees the end of the last one.
      const size_t read = words.size() - 1 + ((words.size() - 1) % length != 0 ? 1 : 0);
      for (size_t begin = 0; begin < read; begin += length) {
        const size_t count = std::min(length, read - begin);
        uint64_t targets = 0;
        for (size_t i = begin + 1; i < std::min(begin + count + 1, words.size()); ++i)
          targets += words.learned(i);
        if (targets == 0) {
          ++without_target_;
          continue;
        }
        targets_ += targets;
        put({static_cast<uint32_t>(d), static_cast<uint32_t>(count), begin});
      }
    }
  });
  if (windows_.empty())
    fail(Errc::kInvalidArgument,
         "{}: nothing in it can be learned: {} documents of less than two tokens, {} stretches of {} tokens "
         "without an answer; a larger sequence_len may help",
         name_, left_out_, without_target_, length);
}

void DocumentDataset::put(const Stretch& stretch) {
  if (!packed_ || used_ + stretch.count > length_) {
    windows_.push_back(stretches_.size());
    used_ = 0;
  }
  stretches_.push_back(stretch);
  used_ += stretch.count;
}

void DocumentDataset::read(uint64_t item, const ItemView& into) const {
  BF_CHECK(item < size() && into.ids.size() == length_ && into.targets.size() == length_) << name_;
  std::fill(into.ids.begin(), into.ids.end(), padding_);
  std::fill(into.targets.begin(), into.targets.end(), kIgnoredTarget);
  const uint64_t end = item + 1 < windows_.size() ? windows_[item + 1] : stretches_.size();
  size_t at = 0;
  for (uint64_t s = windows_[item]; s < end; ++s) {
    const auto& [document, count, begin] = stretches_[s];
    const TokenWords words = (*store_)[document];
    for (size_t i = 0; i < count; ++i) {
      const int32_t id = words.id(begin + i);
      if (static_cast<size_t>(id) >= vocabulary_)
        fail(Errc::kCorrupt, "{}: document {} has token {}, the vocabulary has {}", name_, document + 1, id,
             vocabulary_);
      into.ids[at + i] = i == 0 ? document_start(id) : id;
      const size_t next = begin + i + 1;
      if (next < words.size() && words.learned(next)) into.targets[at + i] = words.id(next);
    }
    at += count;
  }
}

std::string DocumentDataset::describe() const {
  std::string text =
      fmt::format("{}: {} documents in {} windows of {} tokens, {:.1f} % filled", name_, documents_, size(),
                  length_, 100.0 * static_cast<double>(targets_) / static_cast<double>(size() * length_));
  if (cut_ > 0) text += fmt::format(", {} cut", cut_);
  if (left_out_ > 0) text += fmt::format(", {} too short", left_out_);
  if (without_target_ > 0) text += fmt::format(", {} stretches without an answer left out", without_target_);
  if (!store_->notes().empty()) text += ", " + store_->notes();
  return text;
}

}  // namespace butterfly::train
