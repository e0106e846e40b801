// Streams that outlive their connections, and the journal they outlive their process by.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <fstream>
#include <future>

#include "base/error.h"
#include "base/file_text.h"
#include "base/testing/temp_dir.h"
#include "server/streams/stream_table.h"

namespace butterfly::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writers put text together with room for more.
std::string roomy(std::string piece) {
  piece.reserve(4096);
  return piece;
}

// A client's end: what it was sent, and whether it has gone.
class FakeClient final : public Exchange {
 public:
  const HttpRequest& request() const override { return request_; }
  HttpRequest& request() override { return request_; }
  const std::string& id() const override { return id_; }
  void respond(HttpResponse response) override { got.push_back("whole: " + response.body); }
  void begin(HttpResponse, std::string) override { begun = true; }
  void write(std::string piece) override { got.push_back(std::move(piece)); }
  void end() override { ended = true; }
  bool gone() const override { return false; }
  void on_gone(std::function<void()> action) override { gone_ = std::move(action); }
  void go() { gone_(); }

  std::vector<std::string> got;
  bool begun = false, ended = false;

 private:
  HttpRequest request_;
  std::string id_ = "log-1";
  std::function<void()> gone_;
};

std::shared_ptr<ResumableStream> stream_for(const ExchangePtr& client) {
  auto stream = std::make_shared<ResumableStream>("s", 7, HttpRequest{}, client);
  stream->listen_to_client();
  return stream;
}

TEST(ResumableStream, NothingGoesOutBeforeTheQuestionIsOnDisk) {
  const auto client = std::make_shared<FakeClient>();
  const auto stream = stream_for(client);
  stream->begin({}, "");
  stream->write("data: a\n\n");
  EXPECT_TRUE(client->got.empty());
  stream->release();
  stream->write("data: b\n\n");
  stream->end();
  EXPECT_THAT(client->got, ElementsAre("id: s:1\ndata: a\n\n", "id: s:2\ndata: b\n\n"));
  EXPECT_TRUE(client->ended);
}

TEST(ResumableStream, ShortAnswersThatEndBeforeThatGoOutWhole) {
  const auto client = std::make_shared<FakeClient>();
  const auto stream = stream_for(client);
  stream->begin({}, "");
  stream->write("data: a\n\n");
  stream->end();
  EXPECT_FALSE(client->ended);
  stream->release();
  EXPECT_EQ(client->got.size(), 1u);
  EXPECT_TRUE(client->ended);
}

TEST(ResumableStream, WhoComesBackGetsWhatItMissedAndNothingTwice) {
  const auto first = std::make_shared<FakeClient>();
  const auto stream = stream_for(first);
  stream->release();
  stream->begin({}, "");
  stream->write("data: a\n\n");
  stream->write("data: b\n\n");
  first->go();
  EXPECT_TRUE(stream->view().alone_since);
  EXPECT_FALSE(stream->gone()) << "the answer goes on";
  stream->write("data: c\n\n");
  EXPECT_EQ(first->got.size(), 2u);
  const auto second = std::make_shared<FakeClient>();
  ASSERT_TRUE(stream->attach(second, 1).ok());
  EXPECT_FALSE(stream->view().alone_since);
  stream->write("data: d\n\n");
  stream->end();
  EXPECT_THAT(second->got,
              ElementsAre("id: s:2\ndata: b\n\n", "id: s:3\ndata: c\n\n", "id: s:4\ndata: d\n\n"));
  EXPECT_TRUE(second->begun && second->ended);
  // The end may have got lost on the way.
  const auto third = std::make_shared<FakeClient>();
  ASSERT_TRUE(stream->attach(third, 4).ok());
  EXPECT_TRUE(third->got.empty());
  EXPECT_TRUE(third->ended);
}

#ifdef __GLIBC__
TEST(ResumableStream, WhatIsKeptTakesNoMoreThanItHas) {
  const auto stream = std::make_shared<ResumableStream>("s", 7, HttpRequest{}, nullptr);
  const size_t before = ::mallinfo2().uordblks;
  for (int i = 0; i < 1000; ++i) stream->write(roomy("data: thirty-two bytes or so of it\n\n"));
  EXPECT_LT(::mallinfo2().uordblks - before, size_t{1} << 20);
}
#endif

// The answer is made again after a restart and has not come as far yet as the client had it.
TEST(ResumableStream, AnAnswerThatIsMadeAgainIsSkippedUpToWhereItWas) {
  const auto stream = std::make_shared<ResumableStream>("s", 7, HttpRequest{}, nullptr);
  stream->release();
  const auto client = std::make_shared<FakeClient>();
  ASSERT_TRUE(stream->attach(client, 2).ok());
  stream->begin({}, "");
  EXPECT_TRUE(client->begun);
  for (const char* piece : {"data: a\n\n", "data: b\n\n", "data: c\n\n"}) stream->write(piece);
  EXPECT_THAT(client->got, ElementsAre("id: s:3\ndata: c\n\n"));
}

// "The server is shutting down", say: where the answer is made again, event 2 is something else.
TEST(ResumableStream, AFailureHasNoNumber) {
  const auto client = std::make_shared<FakeClient>();
  const auto stream = stream_for(client);
  stream->release();
  stream->begin({}, "");
  stream->write("data: a\n\n");
  stream->fail("data: error\n\n");
  EXPECT_THAT(client->got, ElementsAre("id: s:1\ndata: a\n\n", "data: error\n\n"));
  EXPECT_TRUE(client->ended);
  const auto again = std::make_shared<FakeClient>();
  ASSERT_TRUE(stream->attach(again, 1).ok());
  EXPECT_THAT(again->got, ElementsAre("data: error\n\n"));
}

TEST(ResumableStream, KeepsNoMoreThanItMay) {
  const auto stream = std::make_shared<ResumableStream>("s", 7, HttpRequest{}, nullptr);
  stream->release();
  stream->begin({}, "");
  for (int i = 0; i < 20; ++i) stream->write(std::string(ResumableStream::kBytesMax / 10, 'x'));
  const auto client = std::make_shared<FakeClient>();
  EXPECT_EQ(stream->attach(client, 3).code(), Errc::kNotFound);
  EXPECT_TRUE(stream->attach(client, 15).ok());
  EXPECT_EQ(client->got.size(), 5u);
}

// Held back for too long, its beginning is gone: what comes behind the gap would look like all there is.
TEST(ResumableStream, AClientGetsNothingBehindAGap) {
  const auto client = std::make_shared<FakeClient>();
  const auto stream = stream_for(client);  // not released: the disk is slow
  stream->begin({}, "");
  for (int i = 0; i < 20; ++i) stream->write(std::string(ResumableStream::kBytesMax / 10, 'x'));
  stream->release();
  EXPECT_TRUE(client->got.empty());
  EXPECT_TRUE(client->ended);
  EXPECT_EQ(stream->attach(std::make_shared<FakeClient>(), 0).code(), Errc::kNotFound);
}

TEST(ResumableStream, GivenUpTheAnswerHearsOfIt) {
  const auto client = std::make_shared<FakeClient>();
  const auto stream = stream_for(client);
  int told = 0;
  stream->on_gone([&] { ++told; });
  client->go();
  EXPECT_EQ(told, 0);
  stream->give_up();
  stream->give_up();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(stream->attach(client, 0).code(), Errc::kNotFound);
}

// A machine that does not lead its cluster now says nothing; what came meanwhile goes out when it does again.
TEST(ResumableStream, WhoMayNotSpeakKeepsItForLater) {
  const auto client = std::make_shared<FakeClient>();
  bool may = true;
  const auto stream = std::make_shared<ResumableStream>("s", 7, HttpRequest{}, client, [&] { return may; });
  stream->release();
  stream->begin({}, "");
  stream->write("data: a\n\n");
  may = false;
  stream->write("data: b\n\n");
  stream->end();
  stream->flush();
  EXPECT_EQ(client->got.size(), 1u);
  EXPECT_FALSE(client->ended);
  may = true;
  stream->flush();
  EXPECT_THAT(client->got, ElementsAre("id: s:1\ndata: a\n\n", "id: s:2\ndata: b\n\n"));
  EXPECT_TRUE(client->ended);
}

TEST(ResumableStream, LinesHaveNoNumbersAndTheHeadHasTheId) {
  const auto client = std::make_shared<FakeClient>();
  const auto stream = stream_for(client);
  stream->set_lines();
  stream->release();
  stream->begin({}, "");
  for (const char* piece : {"{\"a\":1}\n", "{\"a\":2}\n"}) stream->write(piece);
  EXPECT_THAT(client->got, ElementsAre("{\"a\":1}\n", "{\"a\":2}\n"));
  const auto again = std::make_shared<FakeClient>();
  ASSERT_TRUE(stream->attach(again, 1).ok());
  EXPECT_THAT(again->got, ElementsAre("{\"a\":2}\n"));
}

struct JournalTest : ::testing::Test {
  static JournalEntry entry(const std::string& id) {
    return {.id = id,
            .created = 5,
            .path = "/v1/completions",
            .body = R"({"seed":1})",
            .prompt = {1, 5, 9},
            .owner = "o",
            .program = "p"};
  }
  // Returns when it is on disk.
  static Status begin(StreamJournal& journal, const JournalEntry& entry) {
    std::promise<Status> done;
    journal.begin(entry, [&](const Status& status) { done.set_value(status); });
    return done.get_future().get();
  }
  butterfly::testing::TempDir folder;
  const std::filesystem::path file = folder.path() / "journal";
};

TEST_F(JournalTest, WhatHasNotEndedIsLeftForTheNextProcess) {
  {
    StreamJournal journal(file);
    EXPECT_TRUE(journal.left().empty());
    for (const char* id : {"one", "two", "three"}) ASSERT_TRUE(begin(journal, entry(id)).ok());
    journal.end("two");
  }
  const StreamJournal next(file);
  ASSERT_EQ(next.left().size(), 2u);
  for (const JournalEntry& left : next.left()) EXPECT_EQ(left, entry(left.id));
}

TEST_F(JournalTest, ALineThatWasNotWrittenWholeIsPassedOver) {
  {
    StreamJournal journal(file);
    ASSERT_TRUE(begin(journal, entry("one")).ok());
  }
  for (const char* torn : {"{\"begin\":\"two\",\"cre", "nonsense\n", "{\"end\":7}\n", "[]\n", "\n"}) {
    std::ofstream(file, std::ios::app) << torn;
    EXPECT_EQ(StreamJournal(file).left().size(), 1u) << torn;
  }
}

TEST_F(JournalTest, OnlyItsOwnerReadsIt) {
  const StreamJournal journal(file);
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(JournalTest, AFolderThatIsNotThereIsAnErrorWithItsName) {
  try {
    const StreamJournal journal(folder.path() / "no" / "journal");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no/journal"));
  }
}

// A full disk: whoever asks is told, and what comes when there is room again is kept.
TEST_F(JournalTest, WhatCannotBeWrittenIsSaid) {
  StreamJournal journal(file);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  JournalEntry large = entry("large");
  large.body.resize(5000, 'x');
  const Status status = begin(journal, large);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.code(), Errc::kIo);
  EXPECT_THAT(status.text(), HasSubstr("journal"));
  EXPECT_TRUE(begin(journal, entry("small")).ok());
}

struct FakeCopies final : JournalCopies {
  void journal_is(const std::string& all) override { text = all; }
  Status journal_grew(const std::string& lines) override {
    if (!leads) return {Errc::kCancelled, "another one leads"};
    text += lines;
    return {};
  }
  std::string text;
  bool leads = true;
};

// Whoever has the copy can go on, and nothing is shown that no copy has.
TEST_F(JournalTest, CopiesHaveWhatTheFileHas) {
  const auto copies = std::make_shared<FakeCopies>();
  {
    StreamJournal journal(file, copies);
    ASSERT_TRUE(begin(journal, entry("one")).ok());
    ASSERT_TRUE(begin(journal, entry("two")).ok());
    journal.end("one");
    ASSERT_TRUE(begin(journal, entry("three")).ok());
    copies->leads = false;
    EXPECT_EQ(begin(journal, entry("four")).code(), Errc::kCancelled);
  }
  const std::filesystem::path copy = folder.path() / "copy";
  std::ofstream(copy) << copies->text;
  std::vector<std::string> left;
  const StreamJournal next(copy);
  for (const JournalEntry& row : next.left()) left.push_back(row.id);
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("two", "three"));
}

TEST_F(JournalTest, TheFileDoesNotGrowForEver) {
  StreamJournal journal(file);
  JournalEntry large = entry("");
  large.body.resize(1 << 20, 'x');
  for (int i = 0; i < 40; ++i) {
    large.id = std::to_string(i);
    ASSERT_TRUE(begin(journal, large).ok());
    journal.end(large.id);
  }
  ASSERT_TRUE(begin(journal, entry("last")).ok());
  EXPECT_LT(std::filesystem::file_size(file), StreamJournal::kBytesBeforeAnew + (2 << 20));
}

struct TableTest : JournalTest {
  StreamTableOptions options() const {
    return {.journal = file, .program = "p", .alone_max = std::chrono::milliseconds(1)};
  }
};

TEST_F(TableTest, AProcessThatEndsLeavesItsStreamsToTheNext) {
  const auto client = std::make_shared<FakeClient>();
  {
    StreamTable table(options());
    ASSERT_NE(table.open(client, entry("one")), nullptr);
    EXPECT_EQ(table.take_left(), 0u);
    EXPECT_EQ(table.next_left(Duration(0)), nullptr);
  }
  StreamTable next(options());
  EXPECT_EQ(next.take_left(), 1u);
  const auto left = next.next_left(Duration(0));
  ASSERT_NE(left, nullptr);
  EXPECT_EQ(left->stream_id(), "one");
  EXPECT_EQ(left->created(), 5);
  EXPECT_EQ(left->request().body, entry("one").body);
  EXPECT_EQ(left->prompt(), entry("one").prompt);
  EXPECT_EQ(next.next_left(Duration(0)), nullptr) << "once";
  next.put_back(left);
  EXPECT_EQ(next.next_left(Duration(0)), left) << "and again, where there was no room";
  const auto again = std::make_shared<FakeClient>();
  EXPECT_EQ(next.attach("one", "somebody else", again, 0).code(), Errc::kNotFound);
  EXPECT_EQ(next.attach("two", "o", again, 0).code(), Errc::kNotFound);
  EXPECT_TRUE(next.attach("one", "o", again, 0).ok());
}

TEST_F(TableTest, AnotherProgramDoesNotGoOnWithThem) {
  {
    StreamTable table(options());
    ASSERT_NE(table.open(std::make_shared<FakeClient>(), entry("one")), nullptr);
  }
  StreamTableOptions other = options();
  other.program = "another";
  EXPECT_EQ(StreamTable(other).take_left(), 0u);
  EXPECT_EQ(StreamTable(options()).take_left(), 0u) << "and they are forgotten";
}

// Answers are kept for a while after they were sent. A server that comes back has to go on with those that
// somebody waits for, and not to make all of the last minute again before.
TEST_F(TableTest, WhatWasSentIsMadeAgainOnlyForWhoAsks) {
  StreamTableOptions slow = options();
  slow.alone_max = std::chrono::hours(1);
  {
    StreamTable table(slow);
    for (const char* id : {"a-sent", "b-runs", "c-runs", "d-sent"}) {
      const auto stream = table.open(std::make_shared<FakeClient>(), entry(id));
      ASSERT_NE(stream, nullptr);
      if (!std::string_view(id).ends_with("sent")) continue;
      stream->begin({}, "");
      stream->release();
      stream->end();
    }
    const Deadline deadline(SystemClock::instance(), std::chrono::seconds(60));
    while (read_text_file(file).find(R"({"sent":"d-sent"})") == std::string::npos && !deadline.expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // Also from a file that was written anew in between.
  EXPECT_EQ(StreamTable(slow).take_left(), 4u);
  StreamTable next(slow);
  EXPECT_EQ(next.take_left(), 4u);
  ASSERT_TRUE(next.attach("c-runs", "o", std::make_shared<FakeClient>(), 3).ok());
  EXPECT_EQ(next.next_left(Duration(0))->stream_id(), "c-runs") << "somebody waits for it";
  EXPECT_EQ(next.next_left(Duration(0), false), nullptr) << "nobody waits for the others";
  EXPECT_EQ(next.next_left(Duration(0))->stream_id(), "b-runs");
  EXPECT_EQ(next.next_left(Duration(0)), nullptr);
  ASSERT_TRUE(next.attach("d-sent", "o", std::make_shared<FakeClient>(), 3).ok());
  EXPECT_EQ(next.next_left(Duration(0))->stream_id(), "d-sent");
}

TEST_F(TableTest, WhatNobodyComesBackForIsGivenUp) {
  const auto client = std::make_shared<FakeClient>();
  StreamTable table(options());
  const auto stream = table.open(client, entry("one"));
  std::promise<void> told;
  stream->on_gone([&] { told.set_value(); });
  client->go();
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(table.size(), 0u);
}

// Answers are kept for a minute after they were sent. A server that gives more of them in a minute than it
// keeps would have no room for those that run.
TEST_F(TableTest, AnswersThatWereSentMakeRoomForOthers) {
  StreamTableOptions few = options();
  few.streams_max = 2;
  few.alone_max = std::chrono::hours(1);
  StreamTable table(few);
  const auto runs = table.open(std::make_shared<FakeClient>(), entry("runs"));
  ASSERT_NE(runs, nullptr);
  for (const char* id : {"one", "two", "three"}) {
    const auto stream = table.open(std::make_shared<FakeClient>(), entry(id));
    ASSERT_NE(stream, nullptr) << id;
    stream->begin({}, "");
    stream->release();
    stream->end();
  }
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.attach("two", "o", std::make_shared<FakeClient>(), 0).code(), Errc::kNotFound);
  EXPECT_TRUE(table.attach("three", "o", std::make_shared<FakeClient>(), 0).ok());
  EXPECT_TRUE(table.attach("runs", "o", std::make_shared<FakeClient>(), 0).ok());
}

TEST_F(TableTest, ThereAreOnlySoMany) {
  StreamTableOptions few = options();
  few.streams_max = 1;
  StreamTable table(few);
  EXPECT_NE(table.open(std::make_shared<FakeClient>(), entry("one")), nullptr);
  EXPECT_EQ(table.open(std::make_shared<FakeClient>(), entry("two")), nullptr);
}

}  // namespace
}  // namespace butterfly::server
