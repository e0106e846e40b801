#include "server/models/schema_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"

namespace butterfly::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string refusal(const std::filesystem::path& folder) {
  try {
    read_schema_folder(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SchemaFolder, FilesAreKnownByIdOrPath) {
  const butterfly::testing::TempDir folder;
  folder.write("a.json", R"({"$id":"https://example.com/a#","type":"string"})");
  folder.write("b.json", "true");
  folder.write("notes.txt", "not a schema");
  EXPECT_THAT(read_schema_folder(folder.path()),
              ElementsAre(Pair("b.json", "true"), Pair("https://example.com/a", HasSubstr("string"))));
}

TEST(SchemaFolder, BadOnesAreNamed) {
  const butterfly::testing::TempDir folder;
  EXPECT_THAT(refusal(folder.path() / "no"), HasSubstr("no such folder"));
  folder.write("bad.json", "{");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("bad.json: not JSON"));
  folder.write("bad.json", R"({"$id":"x"})");
  folder.write("c.json", R"({"$id":"x"})");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("c.json: another schema has the address 'x'"));
  folder.write("c.json", std::string(9 << 20, ' ') + "{}");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("more than 8"));
}

}  // namespace
}  // namespace butterfly::server
