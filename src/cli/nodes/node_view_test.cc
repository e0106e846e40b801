// What a node keeps of itself for `status`, and what its user is told to do about a firewall.
#include "cli/nodes/node_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/testing/temp_dir.h"
#include "cli/nodes/doctor_checks.h"
#include "cli/nodes/firewall.h"

namespace butterfly::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

NodeView sample() {
  runtime::NodeShell::View view{.state = cluster::Worker::State::kWaiting,
                                .phase = cluster::WorkerPhase::kIdle,
                                .problem = "no route",
                                .notice = "a cannot reach this node at 10.0.0.7:7742: refused",
                                .begin = 3,
                                .end = 9};
  return node_view(view, "b", "10.0.0.7:7742", "10.0.0.5:7741");
}

TEST(NodeView, ComesBackAndSaysWhoCannotBeAsked) {
  const butterfly::testing::TempDir folder;
  const auto state = cluster::StateFolder::make(folder / "state");
  EXPECT_FALSE(read_node_view(state));
  write_node_view(state, sample());
  const auto back = read_node_view(state);
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->same(sample()));
  EXPECT_EQ(back->pid, ::getpid());
  EXPECT_TRUE(runs(*back));
  EXPECT_THAT(view_text(*back, "did not answer"),
              AllOf(HasSubstr("the coordinator at 10.0.0.5:7741 cannot be asked: did not answer"),
                    HasSubstr("as it sees itself: waiting, idle"), HasSubstr("layers: 3-8"),
                    HasSubstr("problem: no route")));
  NodeView ended = *back;
  ended.pid = 0;
  EXPECT_THAT(view_text(ended, "x"), HasSubstr("does not run here"));
  for (const char* text : {"", "[]", "{\"pid\": \"x\", \"layers\": 3}", "{"}) {
    state.write("node-status", text);
    if (const auto odd = read_node_view(state)) {
      EXPECT_EQ(odd->name, "") << text;
    }
  }
}

TEST(Firewall, TheCommandIsThatOfTheOneAtWork) {
  const butterfly::testing::TempDir root;
  EXPECT_THAT(firewall_command(7742, root.path()), HasSubstr("let TCP port 7742 through the router"));
  std::filesystem::create_directories(root / "usr/sbin");
  root.write("usr/sbin/nft", "");
  EXPECT_THAT(firewall_command(7742, root.path()),
              HasSubstr("nft add rule inet filter input tcp dport 7742"));
  std::filesystem::create_directories(root / "run/firewalld");
  EXPECT_THAT(firewall_command(7742, root.path()), HasSubstr("firewall-cmd --permanent --add-port=7742/tcp"));
  std::filesystem::create_directories(root / "etc/ufw");
  root.write("etc/ufw/ufw.conf", "# x\nENABLED=no\n");
  EXPECT_THAT(firewall_command(7742, root.path()), HasSubstr("firewall-cmd"));
  root.write("etc/ufw/ufw.conf", "# x\nENABLED=yes\n");
  EXPECT_EQ(firewall_command(7742, root.path()), "sudo ufw allow 7742/tcp");
  EXPECT_EQ(port_of("[::1]:7742"), 7742);
  EXPECT_EQ(port_of("somewhere"), 0);
}

TEST(Doctor, ANodeThatNobodyReachesHearsWhatToRun) {
  const Findings found = check_member({"10.0.0.5:7741", Status(Errc::kTimeout, "did not answer"), sample()});
  ASSERT_GE(found.size(), 2u);
  EXPECT_THAT(found[0].text, HasSubstr("a cannot reach this node at 10.0.0.7:7742"));
  EXPECT_THAT(found[0].fix, HasSubstr("7742"));
  EXPECT_THAT(found.back().text, HasSubstr("10.0.0.5:7741 cannot be asked"));
  cluster::ClusterStatus status;
  status.unreachable.push_back({"a", "b", "10.0.0.7:7742", "Connection refused", 3});
  const Findings at_a = check_cluster(status);
  ASSERT_EQ(at_a.size(), 1u);
  EXPECT_EQ(at_a[0].level, Level::kProblem);
  EXPECT_THAT(at_a[0].fix, HasSubstr("on b: 'sudo ufw allow 7742/tcp'"));
}

}  // namespace
}  // namespace butterfly::cli
