// Texts as windows of token ids: from token files, or from ids in memory.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/mapped_file.h"
#include "train/data/dataset.h"
#include "train/data/token_store.h"

namespace butterfly::train {

// How a token file writes its ids: little-endian, nothing else in the file.
enum class TokenWidth { kU16, kU32 };

// A long run of ids, cut into windows of `length`; the targets of a window are its ids moved by one, so the
// last one is the first id of the window behind it. Ids behind the last whole window are not used. Owns the
// ids or maps the file. Immutable: any thread may read.
class TokenDataset final : public Dataset {
 public:
  // The file stays mapped. Throws Error: kCorrupt when its size is no multiple of the width, kInvalidArgument
  // when it has not even one window. Ids are checked when they are read (kCorrupt, with file and place).
  static std::unique_ptr<TokenDataset> open(const std::filesystem::path& path, TokenWidth width,
                                            size_t length, size_t vocabulary);
  // `name` is for messages.
  TokenDataset(std::vector<int32_t> ids, size_t length, size_t vocabulary, std::string name);

  uint64_t size() const override { return (tokens_ - 1) / length_; }
  ItemShape shape() const override { return {.ids = length_, .values = 0, .targets = length_}; }
  void read(uint64_t item, const ItemView& into) const override;
  std::string describe() const override;

 private:
  TokenDataset(size_t length, size_t vocabulary, std::string name);
  void check_count(uint64_t tokens);
  int32_t token(uint64_t at) const;

  std::string name_;
  size_t length_;
  size_t vocabulary_;
  uint64_t tokens_ = 0;
  std::vector<int32_t> ids_;
  std::shared_ptr<MappedFile> file_;
  TokenWidth width_ = TokenWidth::kU32;
};

// Writes ids as a token file. Throws Error kInvalidArgument for an id that the width cannot hold, kIo.
void write_token_file(const std::filesystem::path& path, std::span<const int32_t> ids, TokenWidth width);

// Documents of their own, several to a window: a window begins with a document, and only those longer than it
// are cut. Each begins with document_start(), so none sees another. A document's last id has no target. What
// is left of a window is filled with `padding`, whose targets do not count.
//
// Keeps where the documents of each window are, and shares the documents. Immutable after the constructor:
// any thread may read.
class DocumentDataset final : public Dataset {
 public:
  // A document needs two ids to have a target; shorter ones are left out and counted. So are stretches of
  // `length` in which nothing is learned (questions longer than a window): every window has a target.
  // `packed` false: one document, or one stretch of it, a window.
  // The notes of the documents are shown behind the rest of describe().
  // `vocabulary`: ids from it on are refused when they are read (kCorrupt).
  DocumentDataset(std::shared_ptr<const TokenStore> documents, size_t length, int32_t padding,
                  std::string name, bool packed = true, size_t vocabulary = SIZE_MAX);
  DocumentDataset(std::span<const Document> documents, size_t length, int32_t padding, std::string name,
                  bool packed = true);

  uint64_t size() const override { return windows_.size(); }
  ItemShape shape() const override { return {.ids = length_, .values = 0, .targets = length_}; }
  void read(uint64_t item, const ItemView& into) const override;
  std::string describe() const override;
  size_t left_out() const { return left_out_; }
  size_t cut() const { return cut_; }
  size_t without_target() const { return without_target_; }
  uint64_t targets() const { return targets_; }  // that count

 private:
  // Ids [begin, begin + count) of a document, whose targets are the ids behind them.
  struct Stretch {
    uint32_t document = 0;
    uint32_t count = 0;
    uint64_t begin = 0;
  };
  void put(const Stretch& stretch);

  std::shared_ptr<const TokenStore> store_;
  std::string name_;
  size_t length_;
  int32_t padding_;
  bool packed_;
  size_t vocabulary_;
  std::vector<Stretch> stretches_;
  std::vector<uint64_t> windows_;  // the first stretch of each
  size_t used_ = 0;                // of the last window
  size_t left_out_ = 0, cut_ = 0, without_target_ = 0;
  size_t documents_ = 0;
  uint64_t targets_ = 0;
};

}  // namespace butterfly::train
