#include "train/data/token_store.h"

#include <cstring>

#include "base/check.h"
#include "base/sha256.h"
#include "model/formats/file_sink.h"

namespace butterfly::train {
namespace {

// Ahead of the notes (padded to 8 bytes), the ends and the words. `sum` is of all that follows.
struct Header {
  char magic[16];
  uint64_t documents, words, notes;
  Sha256 sum;
};
constexpr char kMagic[16] = "butterfly-tok-1";

constexpr uint64_t padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

void TokenStore::add(const Document& document) {
  BF_CHECK(document.learned.empty() || document.learned.size() == document.ids.size());
  for (size_t i = 0; i < document.ids.size(); ++i) {
    BF_CHECK(document.ids[i] >= 0);
    const bool learned = document.learned.empty() || document.learned[i];
    words_.push_back(static_cast<uint32_t>(document.ids[i]) | (learned ? TokenWords::kLearned : 0u));
  }
  ends_.push_back(words_.size());
}

TokenWords TokenStore::operator[](size_t document) const {
  const uint64_t begin = document == 0 ? 0 : ends()[document - 1];
  return TokenWords(words().subspan(begin, ends()[document] - begin));
}

Document TokenStore::document(size_t i) const {
  const TokenWords words = (*this)[i];
  Document document;
  for (size_t at = 0; at < words.size(); ++at) {
    document.ids.push_back(words.id(at));
    document.learned.push_back(words.learned(at));
  }
  return document;
}

void TokenStore::write(const std::filesystem::path& path) const {
  std::string body = notes_;
  body.resize(padded(notes_.size()));
  const auto append = [&body](const auto& values) {
    const auto bytes = std::as_bytes(values);
    body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  append(ends());
  append(words());
  Header header{.magic = {}, .documents = size(), .words = token_count(), .notes = notes_.size(), .sum = {}};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.sum = sha256(std::as_bytes(std::span(body)));
  std::filesystem::create_directories(path.parent_path());
  model::FileSink sink(path);
  sink.write(std::as_bytes(std::span(&header, 1)));
  sink.write(std::as_bytes(std::span(body)));
  sink.commit();
}

std::shared_ptr<const TokenStore> TokenStore::open(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return nullptr;
  const std::shared_ptr<MappedFile> file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  Header header;
  bool good = false;
  const auto store = std::make_shared<TokenStore>();
  MappedFile::guard([&] {
    if (bytes.size() < sizeof header) return;
    std::memcpy(&header, bytes.data(), sizeof header);
    const std::span<const std::byte> body = bytes.subspan(sizeof header);
    const uint64_t room = body.size();
    if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.notes > room ||
        padded(header.notes) > room || header.documents > (room - padded(header.notes)) / 8 ||
        header.words != (room - padded(header.notes) - 8 * header.documents) / 4 ||
        room != padded(header.notes) + 8 * header.documents + 4 * header.words || sha256(body) != header.sum)
      return;
    const std::byte* at = body.data() + padded(header.notes);
    store->file_ends_ = {reinterpret_cast<const uint64_t*>(at), header.documents};
    store->file_words_ = {reinterpret_cast<const uint32_t*>(at + 8 * header.documents), header.words};
    uint64_t before = 0;
    for (const uint64_t end : store->file_ends_) {
      if (end < before || end > header.words) return;
      before = end;
    }
    good = before == header.words;
  });
  if (!good) return nullptr;
  store->notes_.assign(reinterpret_cast<const char*>(bytes.data() + sizeof header), header.notes);
  store->file_ = file;
  return store;
}

}  // namespace butterfly::train
