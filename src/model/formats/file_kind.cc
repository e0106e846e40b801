#include "model/formats/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace butterfly::model {
namespace {

struct Signature {
  std::string_view prefix;
  std::string_view words;
};

constexpr Signature kSignatures[] = {
    {"version https://git-lfs.github.com/spec/",
     "a Git LFS pointer: the model itself was not downloaded (git lfs pull fetches it)"},
    {"PK\x03\x04", "a zip archive (a PyTorch checkpoint?); convert it to GGUF first"},
    {"\x80\x02", "a Python pickle (a PyTorch checkpoint?); convert it to GGUF first"},
    {"\x80\x03", "a Python pickle (a PyTorch checkpoint?); convert it to GGUF first"},
    {"\x80\x04", "a Python pickle (a PyTorch checkpoint?); convert it to GGUF first"},
    {"lmgg", "a GGML file from before GGUF (magic 'ggml'); convert it to GGUF first"},
    {"fmgg", "a GGML file from before GGUF (magic 'ggmf'); convert it to GGUF first"},
    {"tjgg", "a GGML file from before GGUF (magic 'ggjt'); convert it to GGUF first"},
    {"algg", "a GGML adapter from before GGUF (magic 'ggla'); convert it to GGUF first"},
    {"\x1f\x8b", "gzip data; unpack it first"},
    {"\x28\xb5\x2f\xfd", "zstd data; unpack it first"},
    {"BZh", "bzip2 data; unpack it first"},
    {"<!DOCTYPE", "a web page (a failed download?)"},
    {"<!doctype", "a web page (a failed download?)"},
    {"<html", "a web page (a failed download?)"},
    {"\x7f"
     "ELF",
     "a program (ELF)"},
};

// safetensors: a little-endian u64 header length, then JSON.
bool looks_like_safetensors(std::span<const std::byte> head) {
  if (head.size() < 9) return false;
  uint64_t header;
  std::memcpy(&header, head.data(), sizeof header);
  return head[8] == std::byte{'{'} && header < (uint64_t{1} << 32);
}

std::string_view text_of(std::span<const std::byte> head) {
  return {reinterpret_cast<const char*>(head.data()), std::min<size_t>(head.size(), 64)};
}

const Signature* known_kind(std::span<const std::byte> head) {
  for (const Signature& row : kSignatures)
    if (text_of(head).starts_with(row.prefix)) return &row;
  return nullptr;
}

}  // namespace

bool is_known_other_file(std::span<const std::byte> head) { return known_kind(head) != nullptr; }

std::string describe_unknown_file(std::span<const std::byte> head) {
  if (head.empty()) return "an empty file";
  const std::string_view text = text_of(head);
  if (looks_like_safetensors(head)) return "a safetensors file";  // its length may look like a signature
  if (const Signature* row = known_kind(head)) return std::string(row->words);
  if (text.find_first_not_of('\0') == std::string_view::npos) return "zero bytes (an unfinished download?)";
  std::string hex;
  for (size_t i = 0; i < std::min<size_t>(head.size(), 8); ++i)
    hex += fmt::format("{}{:02x}", i ? " " : "", std::to_integer<unsigned>(head[i]));
  return fmt::format("{}first bytes {}",
                     head.size() < 4 ? fmt::format("a file of {} bytes, ", head.size()) : "", hex);
}

}  // namespace butterfly::model
