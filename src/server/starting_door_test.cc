#include "server/starting_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_dir.h"
#include "cluster/member/status.h"
#include "server/management_client.h"

namespace butterfly::server {
namespace {

TEST(StartingDoorTest, StatusIsAnsweredBeforeThereIsACluster) {
  const butterfly::testing::TempDir folder;
  const std::string socket = (folder / "serve.sock").string();
  for (int again = 0; again < 2; ++again) {  // it leaves the place to the server that it is for
    const StartingDoor door(socket, "a model");
    const ManagementAnswer answer = ask_server(socket, "GET", cluster::kStatusPath);
    EXPECT_EQ(answer.status, 200);
    const auto status = cluster::parse_status(answer.body);
    ASSERT_TRUE(status.ok()) << answer.body;
    EXPECT_FALSE(status->serving());
    EXPECT_THAT(status->reason(), ::testing::HasSubstr("measured at its first start"));
  }
  EXPECT_FALSE(std::filesystem::exists(socket));
}

}  // namespace
}  // namespace butterfly::server
