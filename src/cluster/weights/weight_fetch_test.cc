#include "cluster/weights/weight_fetch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <list>
#include <mutex>
#include <thread>

#include "cluster/transport/inproc.h"
#include "cluster/transport/message.h"
#include "cluster/weights/testing/chunked_files.h"
#include "cluster/weights/throttle.h"
#include "cluster/weights/weight_request.h"
#include "cluster/weights/weight_server.h"

namespace butterfly::cluster {
namespace {

using testing::ChunkedFiles;

// Chunks of another source, some of them spoiled or withheld.
class FaultySource final : public ChunkSource {
 public:
  explicit FaultySource(const ChunkSource& good)
      : good_(good), spoiled(good.manifest().none()), missing(spoiled) {}
  const Manifest& manifest() const override { return good_.manifest(); }
  bool has(size_t chunk) const override { return !missing[chunk]; }
  Status read(size_t chunk, uint32_t offset, std::span<std::byte> into) const override {
    ++reads;
    Status status = good_.read(chunk, offset, into);
    if (spoiled[chunk]) into[into.size() / 2] ^= std::byte{4};
    return status;
  }
  std::filesystem::path path(size_t file) const override { return good_.path(file); }

 private:
  const ChunkSource& good_;

 public:
  ChunkSet spoiled, missing;
  mutable std::atomic<size_t> reads{0};
};

struct WeightFetchTest : ::testing::Test {
  ChunkedFiles files;
  std::shared_ptr<WholeFiles> whole = std::make_shared<WholeFiles>(files.manifest, files.paths);
  std::mutex threads_lock;  // peers are connected to from several threads
  std::list<std::thread> threads;
  std::vector<WeightPeer> peers;
  std::list<WeightLibrary> libraries;

  ~WeightFetchTest() override {
    for (std::thread& thread : threads) thread.join();
  }

  using Serve = std::function<void(Link&)>;
  void add_peer(const std::string& name, Serve serve) {
    peers.push_back({name, [this, name, serve] {
                       auto [here, there] = inproc_pair({"me", "me"}, {name, name});
                       const std::lock_guard lock(threads_lock);
                       threads.emplace_back([serve, link = std::shared_ptr<Link>(std::move(there))] {
                         serve(*link);
                         link->close();
                       });
                       return Result<std::unique_ptr<Link>>(std::move(here));
                     }});
  }
  void add_peer(const std::string& name, std::shared_ptr<const ChunkSource> source) {
    WeightLibrary& library = libraries.emplace_back();
    library.add(std::move(source));
    add_peer(name, [&library](Link& link) { (void)serve_weights(link, library); });
  }
  std::shared_ptr<FaultySource> add_faulty(const std::string& name) {
    auto source = std::make_shared<FaultySource>(*whole);
    add_peer(name, source);
    return source;
  }
  std::shared_ptr<ChunkStore> store() {
    return ChunkStore::open(files.dir / "store", files.manifest, files.pool).or_throw();
  }
  void expect_whole(const ChunkStore& store) {
    for (size_t f = 0; f < files.contents.size(); ++f) {
      std::ifstream in(store.path(f), std::ios::binary);
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), files.contents[f]);
    }
  }
};

TEST_F(WeightFetchTest, AManifestComesFromWhoeverHasIt) {
  libraries.emplace_back();
  add_peer("empty", [this](Link& link) { (void)serve_weights(link, libraries.front()); });
  add_peer("liar", [](Link& link) {
    (void)receive_message(link, 100, std::chrono::seconds(10));
    (void)send_message(link, {.kind = MessageKind::kWeights}, std::vector<std::byte>(100),
                       std::chrono::seconds(10));
  });
  EXPECT_EQ(fetch_manifest(files.manifest.id(), peers).status().code(), Errc::kNotFound);
  add_peer("whole", whole);
  const auto manifest = fetch_manifest(files.manifest.id(), peers);
  ASSERT_TRUE(manifest.ok()) << manifest.status().text();
  EXPECT_EQ(manifest->id(), files.manifest.id());
}

TEST_F(WeightFetchTest, OnlyWhatIsWantedMovesAndOnlyOnce) {
  add_peer("whole", whole);
  ChunkSet wanted = files.manifest.none();
  wanted[2] = wanted[20] = wanted[21] = true;
  const auto here = store();
  const auto report = fetch_chunks(*here, wanted, peers);
  ASSERT_TRUE(report.ok()) << report.status().text();
  EXPECT_EQ(report->chunks, 3u);
  EXPECT_EQ(report->bytes, 1024u + 100 + 300);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(here->has(i), wanted[i]) << i;
  const auto again = fetch_chunks(*here, wanted, peers);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->bytes, 0u);
}

TEST_F(WeightFetchTest, AllPeersHelp) {
  // Each has only half, so none can do it alone.
  const auto even = add_faulty("even"), odd = add_faulty("odd");
  for (size_t i = 0; i < files.manifest.chunk_count(); ++i) (i % 2 == 0 ? odd : even)->missing[i] = true;
  const auto here = store();
  uint64_t last = 0;
  FetchOptions options;
  options.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, files.manifest.total_bytes());
    last = done;
  };
  const auto report = fetch_chunks(*here, files.manifest.all(), peers, options);
  ASSERT_TRUE(report.ok()) << report.status().text();
  EXPECT_EQ(last, files.manifest.total_bytes());
  EXPECT_EQ(report->peers[0].chunks, 11u);
  EXPECT_EQ(report->peers[1].chunks, 11u);
  expect_whole(*here);
}

TEST_F(WeightFetchTest, AWrongChunkAloneIsFetchedAgainFromAnother) {
  const auto bad = add_faulty("bad"), good = add_faulty("good");
  bad->spoiled[0] = bad->spoiled[1] = true;
  const auto here = store();
  const auto report = fetch_chunks(*here, files.manifest.all(), peers);
  ASSERT_TRUE(report.ok()) << report.status().text();
  EXPECT_EQ(bad->reads + good->reads, files.manifest.chunk_count() + report->wrong);
  EXPECT_LE(report->wrong, 2u);
  expect_whole(*here);
}

TEST_F(WeightFetchTest, APeerThatOnlyLiesIsLeftAlone) {
  const auto bad = add_faulty("bad");
  bad->spoiled = files.manifest.all();
  const auto here = store();
  FetchOptions options;
  options.ahead = 2;  // these chunks are one piece each
  const auto failed = fetch_chunks(*here, files.manifest.all(), peers, options);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().code(), Errc::kPeerLost);
  EXPECT_NE(failed.status().text().find("bad: "), std::string::npos) << failed.status().text();
  EXPECT_LE(bad->reads, 3u + 2u) << "three wrong ones, and what was asked ahead";
  // It goes on where it stopped when somebody better comes.
  add_peer("whole", whole);
  ASSERT_TRUE(fetch_chunks(*here, files.manifest.all(), peers).ok());
  expect_whole(*here);
}

TEST_F(WeightFetchTest, ALostPeerLeavesItsChunksToTheOthers) {
  WeightLibrary& library = libraries.emplace_back();
  library.add(whole);
  add_peer("dying", [&library](Link& link) {
    // Answers what it has, and two chunks; then it is gone.
    for (int i = 0; i < 3; ++i) {
      auto message = receive_message(link, 100, std::chrono::seconds(10));
      if (!message) return;
      const auto request = WeightRequest::parse(message->body);
      if (request->kind == WeightRequest::Kind::kHave) {
        (void)send_message(link, {.kind = MessageKind::kWeights, .step = message->head.step},
                           std::vector<std::byte>(3, std::byte{0xff}), std::chrono::seconds(10));
        continue;
      }
      const auto source = library.find(request->model);
      std::vector<std::byte> chunk(request->bytes);
      (void)source->read(request->chunk, request->offset, chunk);
      (void)send_message(link, {.kind = MessageKind::kWeights, .step = message->head.step}, chunk,
                         std::chrono::seconds(10));
    }
  });
  add_peer("whole", whole);
  FetchOptions options;
  options.opens_max = 1;
  const auto here = store();
  const auto report = fetch_chunks(*here, files.manifest.all(), peers, options);
  ASSERT_TRUE(report.ok()) << report.status().text();
  expect_whole(*here);
}

// A chunk of four MiB over a slow link takes longer than anybody would wait without a sign of life.
TEST_F(WeightFetchTest, ProgressIsToldInPiecesOfChunks) {
  add_peer("one", whole);
  add_peer("two", whole);
  std::vector<uint64_t> told;
  FetchOptions options;
  options.piece_bytes = 100;
  options.progress = [&](uint64_t done, uint64_t) { told.push_back(done); };
  const auto here = store();
  const auto report = fetch_chunks(*here, files.manifest.all(), peers, options);
  ASSERT_TRUE(report.ok()) << report.status().text();
  expect_whole(*here);
  EXPECT_GT(told.size(), files.manifest.total_bytes() / 100);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_EQ(told.back(), files.manifest.total_bytes());
}

TEST_F(WeightFetchTest, AnswersOfAnotherLengthBreakTheLinkOnly) {
  add_peer("long", [](Link& link) {
    auto message = receive_message(link, 100, std::chrono::seconds(10));
    (void)send_message(link, {.kind = MessageKind::kWeights}, std::vector<std::byte>(4),
                       std::chrono::seconds(10));
    (void)link.receive_head(std::chrono::seconds(10));
  });
  const auto here = store();
  FetchOptions options;
  options.opens_max = 1;
  const auto failed = fetch_chunks(*here, files.manifest.all(), peers, options);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.status().text().find("expected number 0, 3 bytes"), std::string::npos)
      << failed.status().text();
}

TEST_F(WeightFetchTest, AFetchCanBeCancelled) {
  add_peer("silent", [](Link& link) {
    while (link.receive_head(std::chrono::seconds(60)).ok()) {
      std::vector<std::byte> body(WeightRequest::kBytes);
      (void)link.receive_body(body, std::chrono::seconds(1));
    }
  });
  std::atomic<bool> cancelled{true};
  FetchOptions options;
  options.cancelled = &cancelled;
  const auto here = store();
  EXPECT_EQ(fetch_chunks(*here, files.manifest.all(), peers, options).status().code(), Errc::kCancelled);
}

TEST_F(WeightFetchTest, ServersRefuseWhatTheyDoNotKnow) {
  WeightLibrary library;
  library.add(whole);
  const auto status_of = [&](MessageHead head, std::vector<std::byte> body) {
    auto [here, there] = inproc_pair({"a", "a"}, {"b", "b"});
    std::thread client([&, link = std::move(here)] {
      (void)send_message(*link, head, body, std::chrono::seconds(10));
      (void)link->receive_head(std::chrono::seconds(10));
    });
    const Status status = serve_weights(*there, library);
    client.join();
    return status.code();
  };
  const WeightRequest outside{WeightRequest::Kind::kChunk, files.manifest.id(), 22};
  EXPECT_EQ(status_of({.kind = MessageKind::kWeights}, outside.to_bytes()), Errc::kCorrupt);
  for (const auto& [offset, bytes] : std::vector<std::pair<uint32_t, uint32_t>>{
           {0, 0}, {0, 1025}, {1024, 1}, {1, 1024}, {UINT32_MAX, 1}, {0, UINT32_MAX}, {2, UINT32_MAX - 1}}) {
    const WeightRequest beyond{WeightRequest::Kind::kChunk, files.manifest.id(), 0, offset, bytes};
    EXPECT_EQ(status_of({.kind = MessageKind::kWeights}, beyond.to_bytes()), Errc::kCorrupt)
        << offset << ", " << bytes;
  }
  EXPECT_EQ(
      status_of({.kind = MessageKind::kWeights}, std::vector<std::byte>(WeightRequest::kBytes, std::byte{9})),
      Errc::kCorrupt);
  EXPECT_EQ(status_of({.kind = MessageKind::kWeights}, std::vector<std::byte>(WeightRequest::kBytes - 1)),
            Errc::kCorrupt);
  EXPECT_EQ(status_of({.kind = MessageKind::kControl}, outside.to_bytes()), Errc::kCorrupt);
}

TEST(ThrottleTest, BytesPerSecondAreKept) {
  ManualClock clock(ManualClock::Sleep::kAdvances);
  const TimePoint start = clock.now();
  Throttle throttle(1000, clock);
  for (int i = 0; i < 5; ++i) throttle.take(500);
  EXPECT_EQ(clock.now() - start, std::chrono::seconds(2)) << "the fifth may begin when four are over";
  Throttle free(0, clock);
  free.take(1 << 30);
  EXPECT_EQ(clock.now() - start, std::chrono::seconds(2));
}

}  // namespace
}  // namespace butterfly::cluster
