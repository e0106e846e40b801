// The page over real sockets, in programs with and without it.
#include "server/web/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_text.h"
#include "server/api/json.h"
#include "server/context/access.h"
#include "server/testing/running_server.h"

namespace butterfly::server {
namespace {

using ::testing::HasSubstr;
using testing::Reply;
using testing::RunningServer;

constexpr const char* kBrowser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

TEST(Page, BrowsersGetItAndOthersAWord) {
  const RunningServer running;
  EXPECT_EQ(running.get("/").body, "Butterfly is running\n");
  const Reply root = running.get("/", kBrowser);
  EXPECT_EQ(root.status, 200);
  if (page_files().empty()) {
    EXPECT_THAT(root.body, HasSubstr("without its web page"));
    EXPECT_EQ(running.get("/page/anything.js").status, 404);
    return;
  }
  EXPECT_EQ(root.fields.at("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(root.fields.at("content-security-policy"), HasSubstr("default-src 'none'; script-src 'self'"));
  EXPECT_EQ(root.fields.at("cache-control"), "no-cache");
  EXPECT_TRUE(root.body.starts_with("<!doctype html>")) << root.body;
  EXPECT_EQ(root.body.find("<script>"), std::string::npos) << "nothing inline: " << root.body;
  size_t total = 0;
  for (const PageFile& file : page_files()) {
    total += file.gzip.size();
    if (file.name == "index.html") continue;
    const std::string path = "/" + std::string(file.name);
    const Reply packed = running.get(path, "Accept-Encoding: gzip, br\r\n");
    EXPECT_EQ(packed.status, 200) << path;
    EXPECT_EQ(packed.fields.at("content-encoding"), "gzip");
    EXPECT_THAT(packed.fields.at("cache-control"), HasSubstr("immutable"));
    EXPECT_EQ(packed.body, file.gzip);
    const Reply plain = running.get(path);
    EXPECT_EQ(plain.fields.count("content-encoding"), 0u);
    EXPECT_GT(plain.body.size(), file.gzip.size() / 2) << path;
  }
  EXPECT_LE(total, 150'000u) << "gzipped, all that the first load can ask for";
  EXPECT_EQ(running.get("/page/index-00000000.js").status, 404);
  EXPECT_EQ(running.get("/page/../index.html").status, 404);
}

TEST(Page, NeedsNoKeyAndChangesOfTheClusterNeedAnOperators) {
  const butterfly::testing::TempDir folder;
  std::string key;
  const RunningServer running([&](Settings& s) {
    s.api_keys = {"bf-0123456789abcdef"};
    key = make_key_in(folder / "operators");
    s.operator_key_file = (folder / "operators").string();
  });
  EXPECT_EQ(running.get("/", kBrowser).status, 200);
  EXPECT_EQ(running.get("/v1/models").status, 401);
  const auto with = [](const std::string& k) { return "Authorization: Bearer " + k + "\r\n"; };
  EXPECT_EQ(running.get("/v1/models", with(key)).status, 200) << "an operator may do what clients may";
  EXPECT_EQ(running.post("/cluster/token", "{}").status, 401);
  const Reply client = running.post("/cluster/token", "{}", with("bf-0123456789abcdef"));
  EXPECT_EQ(client.status, 403);
  EXPECT_THAT(client.body, HasSubstr("key of an operator"));
  EXPECT_EQ(running.post("/cluster/token", "{}", with(key)).status, 404)
      << "allowed, but there is no cluster";
  EXPECT_EQ(running.post("/cluster/remove", R"({"node":"x"})", with(key)).status, 404);
}

TEST(Page, WithoutOperatorsNobodyChangesTheCluster) {
  const RunningServer running;
  const Reply reply = running.post("/cluster/remove", R"({"node":"x"})");
  EXPECT_EQ(reply.status, 403);
  EXPECT_THAT(reply.body, HasSubstr("--operator-key-file"));
}

}  // namespace
}  // namespace butterfly::server
