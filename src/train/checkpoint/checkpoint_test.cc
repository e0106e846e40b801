// Checkpoints are whole or not there, whatever stops the machine, and a run that was stopped ends with the
// bits of one that was not.
#include "train/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/error.h"
#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "train/testing/crash_file_system.h"

namespace butterfly::train {
namespace {

using testing::AfterCrash;
using testing::Crash;
using testing::CrashFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A run whose state after a step depends on every step before it, as training does.
struct ToyRun {
  RunState state{.step = 0, .data_cursor = 0, .seed = 11, .settings = {{"schedule", "cosine"}}};
  std::vector<uint64_t> weights = std::vector<uint64_t>(40, 1), moments = std::vector<uint64_t>(7, 2);

  void step() {
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] = weights[i] * 6364136223846793005u + random_u64(state.seed, state.data_cursor, i);
      moments[i % moments.size()] ^= weights[i];
    }
    ++state.step;
    state.data_cursor += 3;
  }
  std::vector<StatePart> parts() const {
    return {{"weights", std::as_bytes(std::span(weights))}, {"moments", std::as_bytes(std::span(moments))}};
  }
  void save(CheckpointStore& store) const { store.save(state, parts()); }
  // From the newest checkpoint, or the beginning.
  static ToyRun resume(const CheckpointStore& store) {
    ToyRun run;
    const auto loaded = store.load_latest();
    if (!loaded) return run;
    run.state = loaded->state;
    const auto copy = [&](const char* part, std::vector<uint64_t>& to) {
      store.read_part(*loaded, part, std::as_writable_bytes(std::span(to)));
    };
    copy("weights", run.weights);
    copy("moments", run.moments);
    return run;
  }
  friend bool operator==(const ToyRun&, const ToyRun&) = default;
};

ToyRun after(uint64_t steps) {
  ToyRun run;
  while (run.state.step < steps) run.step();
  return run;
}

constexpr CheckpointOptions kSmallWrites{.keep = 2, .write_bytes = 64};

template <typename F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Checkpoint, WhatIsSavedIsLoaded) {
  const butterfly::testing::TempDir dir;
  CheckpointStore store(real_file_system(), dir / "run/checkpoints");
  EXPECT_EQ(store.load_latest(), std::nullopt);
  const ToyRun run = after(5);
  run.save(store);
  EXPECT_EQ(ToyRun::resume(store), run);
  EXPECT_THAT(store.names(), ElementsAre("step-0000000005"));
  EXPECT_THAT(store.load_latest()->refused, IsEmpty());
}

// A run that goes on holds its state once: what is read to check is a piece at a time, and parts go where
// they are used.
TEST(Checkpoint, IsReadInPieces) {
  CrashFileSystem files;
  CheckpointStore store(files, "run", {.write_bytes = 512});
  ToyRun run;
  run.weights.resize(1000, 5);
  run.save(store);
  const auto loaded = store.load_latest();
  ASSERT_TRUE(loaded);
  EXPECT_LE(files.largest_read(), 1024u) << "of 8,056 bytes of state, besides the manifest";
  std::vector<uint64_t> weights(1000);
  store.read_part(*loaded, "weights", std::as_writable_bytes(std::span(weights)));
  EXPECT_EQ(weights, run.weights);
  EXPECT_THROW(store.read_part(*loaded, "weights", {}), Error);
  EXPECT_THROW(store.read_part(*loaded, "nonsense", {}), Error);
}

TEST(Checkpoint, OldOnesGoAndTheBestStays) {
  CrashFileSystem files;
  CheckpointStore store(files, "/ck", kSmallWrites);
  ToyRun run;
  for (int i = 1; i <= 6; ++i) {
    run.step();
    run.save(store);
    if (i == 2) store.mark_best(2);
  }
  EXPECT_THAT(store.names(), ElementsAre("step-0000000002", "step-0000000005", "step-0000000006"));
  EXPECT_EQ(store.best(), 2u);
  store.mark_best(6);
  run.step();
  run.save(store);
  EXPECT_THAT(store.names(), ElementsAre("step-0000000006", "step-0000000007"));
  run.save(store);  // the same step again
  EXPECT_EQ(ToyRun::resume(store), run);
  EXPECT_THAT(files.list("/ck"), ElementsAre("best.json", "step-0000000006", "step-0000000007"));
}

// Saves every second step up to the eighth; the machine stops at every call in turn, loses what it may lose,
// goes on from what is there, and must end with the bits of a run that never stopped.
TEST(Checkpoint, StoppedAtEveryCallTheRunEndsWithTheSameBits) {
  const ToyRun expected = after(8);
  const auto run_to_the_end = [](CrashFileSystem& files) {
    CheckpointStore store(files, "/run/ck", kSmallWrites);
    ToyRun run = ToyRun::resume(store);
    while (run.state.step < 8) {
      run.step();
      if (run.state.step % 2 == 0) run.save(store);
    }
    return run;
  };
  CrashFileSystem whole;
  EXPECT_EQ(run_to_the_end(whole), expected);
  const uint64_t calls = whole.calls();
  ASSERT_GT(calls, 60u);
  for (const AfterCrash what : {AfterCrash::kProcessKilled, AfterCrash::kPowerLost, AfterCrash::kTornFiles}) {
    for (uint64_t call = 0; call < calls; ++call) {
      CrashFileSystem files;
      files.crash_after(call);
      EXPECT_THROW(run_to_the_end(files), Crash);
      files.restart(what);
      EXPECT_EQ(run_to_the_end(files), expected) << "stopped at call " << call;
      const auto left = CheckpointStore(files, "/run/ck").load_latest();
      ASSERT_TRUE(left.has_value());
      EXPECT_THAT(left->refused, IsEmpty()) << "stopped at call " << call;
    }
  }
}

// Once save() has returned, no stop loses that checkpoint.
TEST(Checkpoint, AfterSaveReturnsItIsThereForGood) {
  for (const AfterCrash what : {AfterCrash::kProcessKilled, AfterCrash::kPowerLost, AfterCrash::kTornFiles}) {
    CrashFileSystem files;
    CheckpointStore store(files, "/run/ck", kSmallWrites);
    after(3).save(store);
    files.restart(what);
    EXPECT_EQ(ToyRun::resume(store), after(3));
  }
}

TEST(Checkpoint, AnyDamageIsFoundNamedAndPassedOver) {
  CrashFileSystem files;
  CheckpointStore store(files, "/ck", kSmallWrites);
  after(1).save(store);
  const ToyRun second = after(2);
  second.save(store);
  const std::filesystem::path newest = "/ck/step-0000000002";
  for (const char* file : {"state.bin", "manifest.json"}) {
    const std::vector<std::byte> good = files.read(newest / file);
    for (size_t at = 0; at < good.size(); at += 7) {  // a flipped bit anywhere
      files.corrupt(newest / file, [&](auto& bytes) { bytes[at] ^= std::byte{4}; });
      const auto loaded = store.load_latest();
      ASSERT_TRUE(loaded.has_value());
      EXPECT_EQ(loaded->state.step, 1u) << file << " byte " << at;
      EXPECT_THAT(loaded->refused, ElementsAre(HasSubstr(std::string("step-0000000002/") + file)));
      files.corrupt(newest / file, [&](auto& bytes) { bytes = good; });
    }
    for (const size_t left : {size_t{0}, size_t{1}, good.size() / 2, good.size() - 1}) {  // torn
      files.corrupt(newest / file, [&](auto& bytes) { bytes.resize(left); });
      EXPECT_EQ(store.load_latest()->state.step, 1u) << file << " cut to " << left;
      files.corrupt(newest / file, [&](auto& bytes) { bytes = good; });
    }
    files.remove_all(newest / file);  // missing
    EXPECT_THAT(store.load_latest()->refused, ElementsAre(HasSubstr("step-0000000002")));
    files.create(newest / file)->write(good);
  }
  EXPECT_EQ(ToyRun::resume(store), second);
  for (const char* step : {"step-0000000001", "step-0000000002"})
    files.corrupt(std::filesystem::path("/ck") / step / "state.bin", [](auto& bytes) { bytes.pop_back(); });
  EXPECT_THAT(error_of([&] { store.load_latest(); }), HasSubstr("no checkpoint is whole"));
}

// A damaged newest one must not keep the next save of the same step from working.
TEST(Checkpoint, ADamagedOneIsReplaced) {
  CrashFileSystem files;
  CheckpointStore store(files, "/ck", kSmallWrites);
  after(1).save(store);
  after(2).save(store);
  files.corrupt("/ck/step-0000000002/state.bin", [](auto& bytes) { bytes.clear(); });
  after(2).save(store);
  EXPECT_EQ(ToyRun::resume(store), after(2));
}

TEST(Checkpoint, AFullDiskIsAClearErrorAndTheOldOneStays) {
  CrashFileSystem files;
  CheckpointStore store(files, "/ck", kSmallWrites);
  after(1).save(store);
  for (uint64_t room = 0; room < 600; room += 50) {  // anywhere in the middle of the next
    files.set_room(room);
    EXPECT_THAT(error_of([&] { after(2).save(store); }),
                ::testing::AllOf(HasSubstr("checkpoint of step 2 was not written"),
                                 HasSubstr("No space left"), HasSubstr("step-0000000001 is intact")));
    EXPECT_EQ(ToyRun::resume(store), after(1));
    EXPECT_THAT(files.list("/ck"), ElementsAre("step-0000000001"));
  }
  files.set_room(UINT64_MAX);
  after(2).save(store);
  EXPECT_EQ(ToyRun::resume(store), after(2));
}

// The same with the real file system: a limit on the size of files stands for a full disk.
TEST(Checkpoint, AFullDiskForReal) {
  const butterfly::testing::TempDir dir;
  CheckpointStore store(real_file_system(), dir / "ck");
  ToyRun run = after(1);
  run.save(store);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string words = error_of([&] { after(2).save(store); });
    const bool clear = words.find("File too large") != std::string::npos &&
                       words.find("step-0000000001 is intact") != std::string::npos;
    _exit(clear ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(ToyRun::resume(store), run);
}

// A process killed with -9 at moments of the kernel's choosing, again and again, until it is done.
TEST(Checkpoint, KilledForRealTheRunEndsWithTheSameBits) {
  const butterfly::testing::TempDir dir;
  constexpr uint64_t kSteps = 60;
  const auto work = [&] {
    CheckpointStore store(real_file_system(), dir / "ck", {.keep = 2, .write_bytes = 64});
    ToyRun run = ToyRun::resume(store);
    while (run.state.step < kSteps) {
      run.step();
      run.save(store);
    }
  };
  int kills = 0;
  for (uint64_t round = 0;; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      work();
      _exit(0);
    }
    usleep(static_cast<useconds_t>(2000 + random_u64(1, 1, round) % 30000));
    if (round < 20) kill(child, SIGKILL);  // bounded: then it may finish
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0);
      break;
    }
    ++kills;
  }
  EXPECT_GT(kills, 0);
  const CheckpointStore store(real_file_system(), dir / "ck");
  EXPECT_EQ(ToyRun::resume(store), after(kSteps));
  EXPECT_THAT(store.load_latest()->refused, IsEmpty());
}

}  // namespace
}  // namespace butterfly::train
