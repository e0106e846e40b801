// Says in words what a file that is not a model looks like, so that the error names the likely mistake.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace butterfly::model {

inline constexpr size_t kFileHeadBytes = 256;  // enough of a file's beginning to recognise any format

// From the first bytes of a file: "a Git LFS pointer: ...", "a safetensors file", ...; or the first bytes in
// hex where nothing is recognised.
std::string describe_unknown_file(std::span<const std::byte> head);

// True if the first bytes are those of another well-known kind of file: a Git LFS pointer, gzip, a web page.
bool is_known_other_file(std::span<const std::byte> head);

}  // namespace butterfly::model
