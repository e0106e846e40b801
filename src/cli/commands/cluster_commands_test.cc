// init, token, node, status and doctor, as far as they end by themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/testing/temp_dir.h"
#include "cli/console/exit_code.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/doctor_checks.h"
#include "cli/nodes/status_output.h"
#include "cli/testing/run_captured.h"
#include "cluster/node/capability_file.h"

namespace butterfly::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

struct ClusterCommandsTest : ::testing::Test {
  ClusterCommandsTest() {
    setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
    setenv("BUTTERFLY_STATE", (folder / "state").c_str(), 1);
  }
  ~ClusterCommandsTest() override {
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("BUTTERFLY_STATE");
  }
  butterfly::testing::TempDir folder;
};

TEST_F(ClusterCommandsTest, InitMakesAClusterOnce) {
  const Outcome made = run({"init", "--name", "first", "--address", "10.1.2.3"});
  ASSERT_EQ(made.status, kExitOk) << made.err;
  // stdout is the line for the next machine, and nothing else.
  EXPECT_THAT(made.out, StartsWith("butterfly join 10.1.2.3:7741 --token bf1-"));
  EXPECT_EQ(line_count(made.out), 1u);
  EXPECT_THAT(made.err, HasSubstr("bf-"));
  for (const auto& entry : std::filesystem::directory_iterator(folder / "state")) {
    struct stat about {};
    ASSERT_EQ(::stat(entry.path().c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0077, 0u) << entry.path();
  }
  const Outcome again = run({"init"});
  EXPECT_EQ(again.status, kExitUsage);
  const Json nodes = json_of_text<Json>(run({"node", "list", "--json"}).out);
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes[0]["name"], "first");
  EXPECT_EQ(nodes[0]["state"], "not connected");
}

TEST_F(ClusterCommandsTest, InitRefusesNamesThatCertificatesCannotBear) {
  EXPECT_EQ(run({"init", "--name", "two words"}).status, kExitUsage);
  EXPECT_FALSE(std::filesystem::exists(folder / "state"));
}

TEST_F(ClusterCommandsTest, TokensAreMadeListedAndRevoked) {
  EXPECT_EQ(run({"token", "list"}).status, kExitUsage);  // no cluster here
  ASSERT_EQ(run({"init"}).status, kExitOk);
  const Outcome made = run({"token", "new", "--uses", "3", "--ttl", "2h", "--address", "box:9000"});
  ASSERT_EQ(made.status, kExitOk) << made.err;
  EXPECT_THAT(made.out, StartsWith("butterfly join box:9000 --token bf1-"));
  EXPECT_THAT(made.err, HasSubstr("3 nodes and 2 h"));
  Json tokens = json_of_text<Json>(run({"token", "list", "--json"}).out);
  ASSERT_EQ(tokens.size(), 2u);  // init made one
  const std::string secret = made.out.substr(made.out.rfind('-') + 1, 32);
  EXPECT_THAT(run({"token", "list"}).out, Not(HasSubstr(secret)));
  std::string id;
  for (const Json& token : tokens)
    if (token["uses"] == 3) id = token["id"];
  EXPECT_EQ(run({"token", "revoke", id}).status, kExitOk);
  EXPECT_EQ(run({"token", "revoke", id}).status, kExitUsage);
  EXPECT_EQ(json_of_text<Json>(run({"token", "list", "--json"}).out).size(), 1u);
  EXPECT_EQ(run({"token", "new", "--ttl", "soon"}).status, kExitUsage);
  EXPECT_EQ(run({"token", "new", "--uses", "0"}).status, kExitUsage);
  EXPECT_EQ(run({"token", "burn"}).status, kExitUsage);
}

TEST_F(ClusterCommandsTest, NodeRemoveWithoutACoordinatorIsOnDisk) {
  ASSERT_EQ(run({"init", "--name", "first"}).status, kExitOk);
  EXPECT_EQ(run({"node", "remove"}).status, kExitUsage);
  EXPECT_EQ(run({"node", "remove", "second"}).status, kExitUsage);
}

TEST_F(ClusterCommandsTest, StatusSaysWhenNothingRuns) {
  const Outcome none = run({"status"});
  EXPECT_EQ(none.status, kExitUsage);
  EXPECT_THAT(none.err, HasSubstr("no cluster is coordinated here"));
  EXPECT_EQ(run({"status", "--port", "1"}).status, kExitUsage);
}

TEST_F(ClusterCommandsTest, DoctorLooksAtThisMachine) {
  const Outcome seen = run({"doctor", "--json", "--cluster-port", "39481", "--http-port", "39482"});
  const Json rows = json_of_text<Json>(seen.out);
  std::set<std::string> checks;
  for (const Json& row : rows) {
    checks.insert(row["check"]);
    EXPECT_TRUE(row["level"] == "ok" || !row["fix"].get<std::string>().empty()) << row;
  }
  for (const char* check : {"identity", "cluster port", "HTTP port", "cpu", "memory", "machine"})
    EXPECT_TRUE(checks.contains(check)) << check;
  ASSERT_EQ(run({"init"}).status, kExitOk);
  EXPECT_THAT(run({"doctor"}).out, HasSubstr("certificate good for"));
  const Outcome lost = run({"doctor", "127.0.0.1:1"});
  EXPECT_EQ(lost.status, kExitFailure);
  EXPECT_THAT(lost.out, HasSubstr("nobody listens there"));
}

cluster::ClusterStatus sample() {
  cluster::ClusterStatus status;
  cluster::JobStatus& job = status.jobs.emplace_back();
  job.id = 1;
  job.model = "tiny";
  job.serving = true;
  job.plan = 2;
  job.serving_s = 61;
  job.predicted_tokens_per_s = 12.5;
  job.last_failure = "b: its link closed: reset";
  job.stages.resize(2);
  for (const char* name : {"a", "b"}) {
    cluster::NodeStatus node;
    node.name = name;
    node.key = std::string("key-") + name;
    node.state = "up";
    node.program = "0.1.0";
    node.target = "AVX2";
    node.threads = 4;
    node.ram_bytes = uint64_t{8} << 30;
    node.disk_bytes_per_s = 1.5e9;
    cluster::NodeJobStatus& part = node.jobs.emplace_back();
    part = {.job = 1, .role = "stage 1 of 2", .begin = 0, .end = 5};
    part.loss = cluster::LossForecast{{node.key, name}, true, 6, 2.08, "still fits, 2.08 times slower"};
    status.nodes.push_back(node);
  }
  status.events.push_back({1, 1'700'000'000'000, "dead", "b", "reset", 1});
  return status;
}

TEST(StatusOutput, ShowsTableLossesAndFailure) {
  const std::string text = status_text(sample());
  EXPECT_THAT(
      text,
      StartsWith("serving tiny for 1 min 01 s, plan 2, 2 stages, 12.5 tok/s predicted; 2 of 2 nodes up\n"));
  EXPECT_THAT(text, HasSubstr("NAME  STATE  ROLE"));
  EXPECT_THAT(text, HasSubstr("0-4"));
  EXPECT_THAT(text, HasSubstr("1.40 GiB/s"));
  EXPECT_THAT(text, HasSubstr("a: still fits, 2.08 times slower"));
  EXPECT_THAT(text, HasSubstr("last failure: b: its link closed"));
  EXPECT_THAT(text, HasSubstr("b dead: reset"));
}

TEST(StatusOutput, ANarrowTerminalGetsTheColumnsThatMatter) {
  const auto second_line = [](const std::string& text) {
    const size_t begin = text.find('\n') + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  const std::string wide = second_line(status_text(sample(), 0));
  EXPECT_THAT(wide, HasSubstr("VERSION"));
  EXPECT_EQ(second_line(status_text(sample(), 0, 200)), wide);
  const std::string narrow = second_line(status_text(sample(), 0, 60));
  EXPECT_LE(narrow.size(), 60u);
  for (const char* column : {"NAME", "STATE", "ROLE", "LAYERS", "TOK/S"})
    EXPECT_THAT(narrow, HasSubstr(column));
  EXPECT_THAT(narrow, Not(HasSubstr("VERSION")));
}

TEST(StatusOutput, SeveralJobsHaveALineEach) {
  cluster::ClusterStatus status = sample();
  status.jobs.push_back({.id = 2, .model = "large", .model_id = "", .reason = "loading plan 3"});
  status.nodes[0].jobs.push_back({.job = 2, .role = "stage 2 of 2", .begin = 7, .end = 9});
  const std::string text = status_text(status);
  EXPECT_THAT(text, StartsWith("not serving tiny, large: large: loading plan 3; 2 of 2 nodes up\n"));
  EXPECT_THAT(text, HasSubstr("  1: tiny for 1 min 01 s, plan 2, 2 stages, 12.5 tok/s predicted\n"
                              "  2: large: loading plan 3\n"));
  EXPECT_THAT(text, HasSubstr("1: 0-4, 2: 7-8"));
}

TEST(StatusOutput, AnIdleNodeIsExplained) {
  cluster::ClusterStatus status = sample();
  EXPECT_THAT(status_text(status), Not(HasSubstr("idle:")));
  status.nodes[1].jobs[0] = {.job = 1};
  EXPECT_THAT(status_text(status), HasSubstr("idle: b: the plan does without ('serve --strategy"));
  status.jobs[0].words = "b left out: it has 1.0 GiB, the smallest piece needs 2.0 GiB";
  EXPECT_THAT(status_text(status),
              AllOf(HasSubstr("without: b left out: it has 1.0 GiB"), Not(HasSubstr("--strategy"))))
      << "no strategy makes room";
  status.jobs[0].serving = false;
  EXPECT_THAT(status_text(status), Not(HasSubstr("idle:")));
}

TEST(StatusOutput, WhoIsRefusedIsShownWithTheReason) {
  cluster::ClusterStatus status = sample();
  status.refused.push_back({"old-laptop", "k9", "node old-laptop runs version 0.0.9 of butterfly", 4, 12});
  EXPECT_THAT(status_text(status),
              HasSubstr("refused: old-laptop, 12.0 s ago, 4 times: node old-laptop runs version 0.0.9"));
}

TEST(StatusOutput, APageFitsTheTerminal) {
  EXPECT_EQ(page_over("one\ntwo\n", 5, 80), "\033[Hone\033[K\r\ntwo\033[K\033[J");
  EXPECT_EQ(page_over("one\ntwo\nthree\n", 2, 2), "\033[Hon\033[K\r\ntw\033[K\033[J");
  EXPECT_EQ(page_over("", 5, 80), "\033[H\033[J");
}

TEST(DoctorChecks, FindWhatDiffersBetweenNodes) {
  cluster::ClusterStatus status = sample();
  EXPECT_EQ(check_cluster(status).front().level, Level::kOk);
  status.nodes[1].program = "0.2.0";
  status.nodes[1].clock_ahead_s = -100;
  status.nodes[1].link_bandwidth = 1e6;
  status.nodes[1].link_rtt_s = 0.02;
  status.nodes[1].disk_bytes_per_s = 21e6;
  status.nodes[1].name = "a";
  status.counters.duplicate_ids = 2;
  std::map<std::string, std::string> found;
  for (const Finding& finding : check_cluster(status)) {
    found[finding.check] += finding.text;
    EXPECT_NE(finding.fix, "");
  }
  EXPECT_THAT(found["versions"], HasSubstr("0.2.0 on a"));
  EXPECT_THAT(found["clock"], HasSubstr("100 s behind"));
  EXPECT_THAT(found["link"], HasSubstr("1.0 MB/s"));
  EXPECT_THAT(found["disk"], HasSubstr("reads 21 MB/s"));
  EXPECT_THAT(found["names"], HasSubstr("2 nodes are called 'a'"));
  EXPECT_THAT(found["identity"], HasSubstr("2 times"));
}

TEST(DoctorChecks, MemoryAndCpu) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  EXPECT_EQ(check_memory(6 * kGiB, 8 * kGiB, 8 * kGiB).front().level, Level::kOk);
  EXPECT_EQ(check_memory(kGiB / 2, 8 * kGiB, 8 * kGiB).front().level, Level::kWarning);
  EXPECT_EQ(check_memory(2 * kGiB, 3 * kGiB, 8 * kGiB).size(), 2u);
  EXPECT_EQ(check_cpu({"AVX2", "SSE4", "ref"}).front().level, Level::kOk);
  EXPECT_EQ(check_cpu({"SSE4", "ref"}).front().level, Level::kWarning);
  EXPECT_EQ(check_cpu({"ref"}).front().level, Level::kProblem);
  EXPECT_TRUE(check_cpu_quota(std::nullopt, 4).empty());
  EXPECT_TRUE(check_cpu_quota(4, 4).empty());
  EXPECT_EQ(check_cpu_quota(3.5, 4).front().level, Level::kOk);
  EXPECT_EQ(check_cpu_quota(0.5, 4).front().level, Level::kWarning);
}

TEST_F(ClusterCommandsTest, DoctorShowsWhatWasMeasured) {
  const cluster::StateFolder state = cluster::StateFolder::make(folder / "state");
  cluster::Capabilities kept;
  const cluster::MeasuredFor here = cluster::this_machine("p", 3);
  kept.program = here.program;
  kept.cpu = here.cpu;
  kept.target = here.target;
  kept.threads = 3;
  kept.ram_limit_bytes = here.ram_limit_bytes;
  kept.memory = {5e9, 12.3e9};
  kept.kernels = {{"Q4_0", {1e9, 11.4e9}, {1e9, 200e9}}};
  kept.disk = 1.26e9;
  kept.measured_unix_s = 1'700'000'000;
  state.write(cluster::capability_file_name(here), cluster::to_json(kept));
  const cluster::WallTime then{std::chrono::seconds(1'700'000'100)};
  const Finding found = check_measured(state.path(), 3, then).front();
  EXPECT_EQ(found.level, Level::kOk) << found.text;
  EXPECT_THAT(found.text,
              HasSubstr("12.3 GB/s from memory, Q4_0 11.4 GB/s and 200 GOP/s, 1.3 GB/s from disk"));
  EXPECT_EQ(check_measured(state.path(), 3, then + std::chrono::hours(24 * 60)).front().level,
            Level::kWarning);
  EXPECT_THAT(check_measured(state.path(), 4, then).front().text, HasSubstr("not measured yet"));
}

TEST(ClusterAccess, ReadsLives) {
  EXPECT_EQ(parse_life("90").count(), 90);
  EXPECT_EQ(parse_life("15m").count(), 900);
  EXPECT_EQ(parse_life("7d").count(), 7 * 86400);
  for (const char* text : {"", "h", "-1h", "0", "1y", "400d", "1 h", "99999999999999999999"})
    EXPECT_THROW(parse_life(text), Error) << text;
}

}  // namespace
}  // namespace butterfly::cli
