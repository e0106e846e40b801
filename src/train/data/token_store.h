// Documents of token ids, one behind the other: in memory while they are made, in a mapped file afterwards.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "train/data/document.h"

namespace butterfly::train {

// One document. A word is an id, with its highest bit set where it is learned and not only read.
class TokenWords {
 public:
  explicit TokenWords(std::span<const uint32_t> words) : words_(words) {}
  size_t size() const { return words_.size(); }
  int32_t id(size_t i) const { return static_cast<int32_t>(words_[i] & ~kLearned); }
  bool learned(size_t i) const { return (words_[i] & kLearned) != 0; }
  static constexpr uint32_t kLearned = 1u << 31;

 private:
  std::span<const uint32_t> words_;
};

// One thread adds; then any thread may read.
class TokenStore {
 public:
  void add(const Document& document);
  void set_notes(std::string notes) { notes_ = std::move(notes); }

  size_t size() const { return ends().size(); }
  uint64_t token_count() const { return words().size(); }
  TokenWords operator[](size_t document) const;
  const std::string& notes() const { return notes_; }  // what was left out while it was made
  Document document(size_t i) const;

  // A file that appears whole or not at all. Throws Error kIo.
  void write(const std::filesystem::path& path) const;
  // Null where there is no such file, or where it is not what was written: damaged, or of another version.
  static std::shared_ptr<const TokenStore> open(const std::filesystem::path& path);

 private:
  std::span<const uint64_t> ends() const { return file_ ? file_ends_ : std::span<const uint64_t>(ends_); }
  std::span<const uint32_t> words() const { return file_ ? file_words_ : std::span<const uint32_t>(words_); }

  std::vector<uint32_t> words_;
  std::vector<uint64_t> ends_;  // of each document
  std::string notes_;
  std::shared_ptr<MappedFile> file_;  // where it is mapped: instead of the vectors
  std::span<const uint64_t> file_ends_;
  std::span<const uint32_t> file_words_;
};

}  // namespace butterfly::train
