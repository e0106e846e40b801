// What shells and `man` want to know of the commands, written from the command table: nothing of it is kept
// by hand.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace butterfly::cli {

// A script for bash, zsh or fish that completes commands and flags. Throws Error kInvalidArgument for others.
std::string completion_script(std::string_view shell);

// "butterfly.1" and "butterfly-run.1" …, one page for each command, into a folder that is there.
void write_man_pages(const std::filesystem::path& folder);
std::string man_page();                       // the overview
std::string man_page(std::string_view name);  // of a command of the table

}  // namespace butterfly::cli
