#include "server/routes/route_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/testing/source_tree.h"

namespace butterfly::server {
namespace {

TEST(RouteTable, RowsAreSound) {
  std::set<std::string> seen;
  for (const Route& route : route_table()) {
    EXPECT_TRUE(seen.insert(std::string(route.method) + std::string(route.path)).second) << route.path;
    EXPECT_EQ(route.path.starts_with("/manage/"), (route.flags & kManagement) != 0) << route.path;
    EXPECT_EQ(route.path.starts_with("/api/"), (route.flags & kOllamaShape) != 0) << route.path;
    EXPECT_NE(route.run, nullptr);
    const RouteMatch found = find_route(route.method, route.path, Door::kManagement);
    EXPECT_EQ(found.route, &route);
  }
}

TEST(RouteTable, FindsByMethodPathAndDoor) {
  EXPECT_EQ(find_route("GET", "/v1/models/a/b:latest", Door::kNetwork).route->path, "/v1/models/{id}");
  EXPECT_EQ(path_parameter(*find_route("GET", "/v1/models/a/b", Door::kNetwork).route, "/v1/models/a/b"),
            "a/b");
  EXPECT_EQ(find_route("GET", "/v1/models/", Door::kNetwork).route, nullptr);
  EXPECT_EQ(find_route("HEAD", "/health", Door::kNetwork).route->path, "/health");
  const RouteMatch other = find_route("DELETE", "/v1/models", Door::kNetwork);
  EXPECT_EQ(other.route, nullptr);
  EXPECT_TRUE(other.path_known);
  EXPECT_EQ(other.allowed, "GET, HEAD");
  EXPECT_FALSE(find_route("GET", "/manage/ps", Door::kNetwork).path_known);
  EXPECT_NE(find_route("GET", "/manage/ps", Door::kManagement).route, nullptr);
  EXPECT_EQ(find_route("GET", "/v1/../manage/ps", Door::kNetwork).route, nullptr);
}

TEST(RouteTable, TheManualNamesEveryRoute) {
  std::ifstream in(source_path("docs/serve.md"));
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const Route& route : route_table())
    EXPECT_NE(page.find(std::string(route.path) + "`"), std::string::npos) << route.path;
}

}  // namespace
}  // namespace butterfly::server
