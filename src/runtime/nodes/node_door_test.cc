// A member that behaves badly has its own places at the door, and not those of others.
#include "runtime/nodes/node_door.h"

#include <gtest/gtest.h>

#include "cluster/node/measure_link.h"
#include "cluster/transport/inproc.h"

namespace butterfly::runtime {
namespace {

using cluster::NodeId;

constexpr Duration kLong = std::chrono::seconds(60);

struct NodeDoorTest : ::testing::Test {
  NodeDoorTest() {
    NodeDoor::Options options;
    options.listener = std::move(*network->listen({"me", "me"}, "door"));
    options.stage_links = &stage_links;
    door.emplace(std::move(options));
    door->start();
  }
  std::unique_ptr<cluster::Link> connect(const std::string& name) {
    return std::move(*network->connect({name, name}, "door", kLong));
  }
  // Whether the door does what it is there for.
  Status measure_as(const std::string& name) {
    const auto link = connect(name);
    cluster::Hello hello;
    hello.purpose = cluster::LinkPurpose::kProbe;
    if (const auto theirs = cluster::exchange_hello(*link, hello, kLong); !theirs) return theirs.status();
    const auto figures = cluster::measure_link(*link, SystemClock::instance());
    return figures ? Status() : figures.status();
  }

  std::shared_ptr<cluster::InprocNetwork> network = std::make_shared<cluster::InprocNetwork>();
  StageLinks stage_links;
  std::optional<NodeDoor> door;
};

TEST_F(NodeDoorTest, AMemberThatOpensLinksWithoutEndKeepsNobodyOut) {
  std::vector<std::unique_ptr<cluster::Link>> links;
  for (size_t i = 0; i < NodeDoor::kLinksMax + 10; ++i) links.push_back(connect("bad"));
  EXPECT_TRUE(measure_as("good").ok());
  // Its own turn comes again when it lets go.
  EXPECT_FALSE(measure_as("bad").ok());
  links.clear();
  for (int tries = 0; tries < 1000 && !measure_as("bad").ok(); ++tries)
    SystemClock::instance().sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(measure_as("bad").ok());
}

}  // namespace
}  // namespace butterfly::runtime
