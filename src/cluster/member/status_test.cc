// Planning for members, and what status pages show of them.
#include "cluster/member/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/testing/temp_dir.h"
#include "cluster/member/incarnation.h"
#include "cluster/testing/chain_planner.h"
#include "cluster/testing/member_samples.h"

namespace butterfly::cluster {
namespace {

using std::chrono::milliseconds;
using testing::chain_planner;
using ::testing::HasSubstr;
using testing::join_message;
using testing::node_id;

// Ten pieces of a gigabyte each.
PieceList chain() {
  PieceList list;
  list.model = "chain";
  for (int i = 0; i < 10; ++i) {
    Piece piece;
    piece.name = fmt::format("block {}", i);
    piece.weight_bytes = uint64_t{1} << 30;
    piece.decode.int8_ops = 2e9;
    piece.decode.weight_bytes = static_cast<double>(piece.weight_bytes);
    piece.prefill = piece.decode;
    piece.prefill.int8_ops *= 100;
    piece.decode_out_bytes = piece.prefill_out_bytes = 16384;
    list.pieces.push_back(piece);
  }
  return list;
}

PlanQuestion question(int nodes, uint64_t ram_bytes) {
  PlanQuestion question;
  question.coordinator = node_id(0);
  for (int i = 0; i < nodes; ++i)
    question.nodes.push_back({node_id(i), testing::capabilities(ram_bytes), ram_bytes});
  return question;
}

TEST(ChainPlanner, FillsNodesWithinTheirMemory) {
  const PlanFunction plan = chain_planner(chain(), DType::kQ4_0);
  const Result<Placement> placement = plan(question(3, uint64_t{4} << 30));
  ASSERT_TRUE(placement.ok()) << placement.status().text();
  EXPECT_EQ(why_not_whole(*placement), "");
  EXPECT_EQ(placement->stages.size(), 3u);
  EXPECT_EQ(placement->pieces, 10u);
  for (const StagePlacement& stage : placement->stages) {
    EXPECT_LE(stage.members.front().memory_bytes, uint64_t{4} << 30);
    EXPECT_EQ(stage.members.front().memory_bytes, (stage.end - stage.begin) * (uint64_t{1} << 30));
    EXPECT_GT(stage.members.front().predicted_s, 0);
    EXPECT_GT(stage.stall_after, Duration{});
  }
  EXPECT_GT(placement->tokens_per_s, 0);
}

TEST(ChainPlanner, SaysWhatDoesNotFit) {
  const Result<Placement> placement = chain_planner(chain(), DType::kQ4_0)(question(2, uint64_t{4} << 30));
  ASSERT_FALSE(placement.ok());
  EXPECT_EQ(placement.status().code(), Errc::kOutOfMemory);
}

TEST(ChainPlanner, AvoidsBrokenPairs) {
  PlanQuestion asked = question(3, uint64_t{6} << 30);
  asked.broken = {{node_id(0).key, node_id(1).key}};
  const Result<Placement> placement = chain_planner(chain(), DType::kQ4_0)(asked);
  ASSERT_TRUE(placement.ok());
  for (size_t i = 0; i + 1 < placement->stages.size(); ++i) {
    const std::set<std::string> pair{placement->stages[i].first().name,
                                     placement->stages[i + 1].first().name};
    EXPECT_NE(pair, (std::set<std::string>{"node-0", "node-1"}));
  }
}

TEST(ChainPlanner, ForecastsLosses) {
  const PlanFunction plan = chain_planner(chain(), DType::kQ4_0);
  const PlanQuestion tight = question(3, uint64_t{4} << 30), roomy = question(3, uint64_t{5} << 30);
  for (const LossForecast& loss : forecast_losses(tight, *plan(tight), plan)) {
    EXPECT_FALSE(loss.fits) << loss.words;
    EXPECT_THAT(loss.words, loss.node == node_id(0) ? HasSubstr("coordinator") : HasSubstr("does not fit"));
  }
  for (const LossForecast& loss : forecast_losses(roomy, *plan(roomy), plan)) {
    if (loss.node == node_id(0)) continue;
    EXPECT_TRUE(loss.fits) << loss.words;
    EXPECT_THAT(loss.words, HasSubstr("still fits"));
  }
}

struct StatusTest : ::testing::Test {
  StatusTest() : coordinator(config(), now) {
    coordinator.set_job(kFirstJob, {"sha256:1", "a model", ""}, now);
    for (int node = 0; node < 3; ++node) {
      coordinator.link_opened(static_cast<LinkNumber>(node) + 1, node_id(node), now);
      coordinator.received(static_cast<LinkNumber>(node) + 1, join_message(node), now);
    }
    tick(milliseconds(400));
    const Result<Placement> placement = plan(job().question(now));
    Epoch epoch = 0;
    for (const CoordinatorAction& action : coordinator.take_actions())
      if (const MakePlan* make = std::get_if<MakePlan>(&action)) epoch = make->question.epoch;
    coordinator.planned(epoch, placement, now);
    for (const StagePlacement& stage : placement->stages)
      coordinator.received(coordinator.members().at(stage.first().key).link,
                           Ready{epoch, Errc::kOk, "", 1, 2}, now);
    for (const StagePlacement& stage : placement->stages)
      coordinator.received(coordinator.members().at(stage.first().key).link, Started{epoch, Errc::kOk, ""},
                           now);
    coordinator.steps_connected(epoch, now);
  }
  static CoordinatorConfig config() {
    CoordinatorConfig config{.incarnation = 7, .self = node_id(0), .address = "10.0.0.0:4711"};
    config.numerics_id = 1;
    config.measure_links = false;
    return config;
  }
  void tick(Duration duration) {
    for (Duration done{}; done < duration; done += milliseconds(50))
      coordinator.tick(now += milliseconds(50));
  }

  const Job& job() const { return *coordinator.job(kFirstJob); }

  TimePoint now{};
  Coordinator coordinator;
  PlanFunction plan = chain_planner(chain(), DType::kQ4_0);
};

TEST_F(StatusTest, JsonSaysWhatIsAndComesBack) {
  ASSERT_NE(job().serving_epoch(), 0u);
  const auto losses = forecast_losses(job().question(now), *job().serving_placement(), plan);
  const ClusterStatus status = status_of(coordinator, {{kFirstJob, losses}}, now, 1'700'000'000'000);
  const std::string text = to_json(status);
  const auto json = json_of_text<nlohmann::json>(text);
  EXPECT_EQ(json["serving"], true);
  ASSERT_EQ(json["jobs"].size(), 1u);
  EXPECT_EQ(json["jobs"][0]["plan"], 1);
  ASSERT_EQ(json["nodes"].size(), 3u);
  EXPECT_EQ(json["nodes"][0]["name"], "node-0");
  EXPECT_EQ(json["nodes"][0]["state"], "up");
  EXPECT_EQ(json["events"][0]["kind"], "joined");
  EXPECT_EQ(json["events"].back()["kind"], "serving");
  uint32_t covered = 0;
  for (const auto& node : json["nodes"]) {
    ASSERT_EQ(node["jobs"].size(), 1u);
    const auto& part = node["jobs"][0];
    if (!part.contains("layers")) continue;
    covered += part["layers"]["end"].get<uint32_t>() - part["layers"]["begin"].get<uint32_t>();
    EXPECT_TRUE(part.contains("if_lost"));
  }
  EXPECT_EQ(covered, 10u);
  covered = 0;
  for (const auto& stage : json["jobs"][0]["stages"]) {
    covered += stage["end"].get<uint32_t>() - stage["begin"].get<uint32_t>();
    ASSERT_EQ(stage["members"].size(), 1u);
    EXPECT_EQ(stage["members"][0]["share"]["heads"], (std::vector{0, 1, 1}));
  }
  EXPECT_EQ(covered, 10u);
  const Result<ClusterStatus> back = parse_status(text);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(to_json(*back), text);
}

TEST_F(StatusTest, WhoLeadsAndWhoElseMayComesBack) {
  ClusterStatus status = status_of(coordinator, {}, now, 0);
  EXPECT_FALSE(json_of_text<nlohmann::json>(to_json(status)).contains("lead")) << "nobody else may";
  status.lead = LeadStatus{
      .term = 12,
      .by_majority = true,
      .seats = {{"a", "ka", "leads", true}, {"b", "kb", "standby", true}, {"c", "kc", "witness", false}},
      .missing = {"d"}};
  const std::string text = to_json(status);
  const auto json = json_of_text<nlohmann::json>(text);
  EXPECT_EQ(json["lead"]["seats"][1]["role"], "standby");
  EXPECT_EQ(json["lead"]["missing"], std::vector<std::string>{"d"});
  const Result<ClusterStatus> back = parse_status(text);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(to_json(*back), text);
}

// What belongs to a job is said by the job, and by a node's part of it: no field for whoever expects one job.
TEST_F(StatusTest, NothingIsToldTwice) {
  const auto json = json_of_text<nlohmann::json>(to_json(status_of(coordinator, {}, now, 0)));
  for (const auto& [name, value] : json["jobs"][0].items())
    EXPECT_FALSE(json.contains(name) && name != "serving" && name != "reason") << name;
  for (const auto& [name, value] : json["nodes"][0]["jobs"][0].items())
    EXPECT_FALSE(json["nodes"][0].contains(name)) << name;
}

TEST(StatusOfJobs, SummedUpInTheWordsForOne) {
  ClusterStatus status;
  EXPECT_FALSE(status.serving());
  EXPECT_EQ(status.reason(), "no model is chosen");
  status.jobs = {{.id = 1, .model = "one", .model_id = "", .serving = true},
                 {.id = 2, .model = "two", .model_id = "", .reason = "loading", .last_failure = "b: ended"}};
  EXPECT_FALSE(status.serving());
  EXPECT_EQ(status.reason(), "two: loading");
  EXPECT_EQ(status.models(), "one, two");
  EXPECT_EQ(status.last_failure(), "b: ended");
  status.jobs[1].serving = true;
  EXPECT_TRUE(status.serving());
  EXPECT_EQ(status.reason(), "");
}

// Half of the time it computes: that is seen in the mean of the last seconds, and kept for an hour.
TEST_F(StatusTest, LoadIsWatchedAndItsHistoryIsBounded) {
  const Member& member = coordinator.members().at(node_id(1).key);
  Beat beat{.ram_free_bytes = 7, .machine = {.busy = 0.9, .process_bytes = 5, .celsius = 60, .throttles = 2}};
  beat.jobs = {{.job = kFirstJob, .epoch = job().serving_epoch(), .phase = WorkerPhase::kRunning}};
  const auto beat_for = [&](Duration duration) {
    for (Duration done{}; done < duration; done += milliseconds(250)) {
      now += milliseconds(250);
      beat.jobs[0].compute_us += 125000;
      beat.jobs[0].rows += 5;
      ++beat.jobs[0].progress;
      coordinator.received(member.link, beat, now);
    }
  };
  beat_for(std::chrono::seconds(20));
  EXPECT_NEAR(member.busy, 0.5, 0.01);
  EXPECT_NEAR(member.rows_per_s, 20, 0.5);
  const NodeStatus row = status_of(coordinator, {}, now, 0).nodes[1];
  EXPECT_EQ(row.machine, beat.machine);
  EXPECT_EQ(parse_status(to_json(status_of(coordinator, {}, now, 0)))->nodes[1].machine, beat.machine);
  ASSERT_EQ(member.load.points().size(), 1u) << "one for ten seconds and a beat";
  EXPECT_NEAR(member.load.points().back().machine_busy, 0.9, 0.3);
  beat_for(std::chrono::hours(2));
  EXPECT_EQ(member.load.points().size(), LoadHistory::kPointsMax);
  const auto json = json_of_text<nlohmann::json>(load_json(coordinator, now, 1'700'000'000'000));
  ASSERT_EQ(json["nodes"].size(), 3u);
  EXPECT_EQ(json["nodes"][0]["points"].size(), 0u) << "it said nothing";
  const auto& points = json["nodes"][1]["points"];
  ASSERT_EQ(points.size(), LoadHistory::kPointsMax);
  EXPECT_NEAR(points.back()["busy"].get<double>(), 0.5, 0.01);
  EXPECT_GT(points.back()["unix_ms"], points.front()["unix_ms"]);
  // A stage that begins anew counts from zero: nothing is made of that.
  beat.jobs[0].compute_us = beat.jobs[0].rows = 0;
  coordinator.received(member.link, beat, now += milliseconds(250));
  EXPECT_EQ(member.busy, 0);
}

TEST_F(StatusTest, EventsCanBeFollowed) {
  const auto all = events_of(coordinator, now, 1'700'000'000'000, 0, 100);
  ASSERT_GE(all.size(), 5u);
  EXPECT_EQ(events_of(coordinator, now, 0, all[2].number, 100).front().number, all[3].number);
  EXPECT_EQ(events_of(coordinator, now, 0, 0, 2).front().number, all[all.size() - 2].number);  // the last two
  EXPECT_EQ(all.back().unix_ms, 1'700'000'000'000);
  EXPECT_EQ(json_of_text<nlohmann::json>(to_json(all[0]))["kind"], "joined");
}

TEST(StatusJson, OtherTextsAreRefused) {
  for (const char* text : {"", "[]", "{}", "{\"nodes\": 3}", "{\"nodes\": [", "nonsense"})
    EXPECT_FALSE(parse_status(text).ok()) << text;
  EXPECT_TRUE(parse_status("{\"nodes\": [{\"name\": 3}]}").ok());
  EXPECT_TRUE(parse_status("{\"nodes\": [], \"links\": [7], \"stages\": [1, {\"members\": 3}]}").ok());
}

TEST(Incarnation, GrowsWhateverTheClockSays) {
  const butterfly::testing::TempDir folder;
  const StateFolder state = StateFolder::make(folder / "state");
  const Incarnation first = next_incarnation(state, 1'700'000'000'000);
  EXPECT_EQ(first, 1'700'000'000'000u);
  EXPECT_EQ(next_incarnation(state, 5), first + 1);
  EXPECT_EQ(next_incarnation(state, -5), first + 2);
  EXPECT_GT(first_epoch(first + 1), first_epoch(first) + 1000);
  state.write("incarnation", "many\n");
  EXPECT_THROW(next_incarnation(state, 5), Error);
}

}  // namespace
}  // namespace butterfly::cluster
