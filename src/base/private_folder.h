// Folders of which only this user decides what lies in them.
#pragma once
#include <filesystem>
#include <string>

namespace butterfly {

// Why others could have put something into this folder, or its place; empty: they could not. A name in /tmp
// can be guessed, and whoever makes the folder first owns what the program finds there.
std::string why_not_private(const std::filesystem::path& folder);

// Makes it with mode 0700 where it is missing. Throws Error kInvalidArgument if it is not private then.
void make_private_folder(const std::filesystem::path& folder);

}  // namespace butterfly
