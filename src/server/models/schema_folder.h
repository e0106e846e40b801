// JSON schemas that the ones in requests may refer to: files of a folder.
#pragma once
#include <filesystem>
#include <map>
#include <string>

namespace butterfly::server {

// The text of every .json file in the folder and below, by its "$id", or by its path within the folder where
// it has none. Throws Error that names the file: not JSON, an address twice, more than 8 MiB together.
std::map<std::string, std::string> read_schema_folder(const std::filesystem::path& folder);

}  // namespace butterfly::server
