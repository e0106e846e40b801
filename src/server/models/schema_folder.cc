#include "server/models/schema_folder.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"

namespace butterfly::server {
namespace {

namespace fs = std::filesystem;
constexpr size_t kBytesMax = size_t{8} << 20;

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(Errc::kNotFound, "{}: cannot be read", file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string address_of(const fs::path& file, const fs::path& folder, const std::string& text) {
  const auto json = json_of_text_or_none<nlohmann::json>(text);
  if (json.is_discarded()) fail(Errc::kCorrupt, "{}: not JSON", file.string());
  if (!json.is_object() || !json.contains("$id") || !json["$id"].is_string())
    return file.lexically_relative(folder).generic_string();
  const std::string id = json["$id"].get<std::string>();
  return id.substr(0, id.find('#'));
}

}  // namespace

std::map<std::string, std::string> read_schema_folder(const fs::path& folder) {
  if (!fs::is_directory(folder)) fail(Errc::kNotFound, "--schemas {}: no such folder", folder.string());
  std::set<fs::path> files;  // in one order, so that messages are the same each time
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == ".json") files.insert(entry.path());
  std::map<std::string, std::string> schemas;
  size_t bytes = 0;
  for (const fs::path& file : files) {
    bytes += fs::file_size(file);
    if (bytes > kBytesMax)
      fail(Errc::kOutOfMemory, "--schemas {}: more than {} of schemas", folder.string(),
           format_bytes(kBytesMax));
    std::string text = read_text(file);
    const std::string address = address_of(file, folder, text);
    if (!schemas.emplace(address, std::move(text)).second)
      fail(Errc::kInvalidArgument, "{}: another schema has the address '{}' already", file.string(), address);
  }
  return schemas;
}

}  // namespace butterfly::server
