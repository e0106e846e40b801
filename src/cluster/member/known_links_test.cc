#include "cluster/member/known_links.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"

namespace butterfly::cluster {
namespace {

KnownLink link(char from, char to, int64_t unix_ms) {
  return {std::string(64, from),
          std::string(64, to),
          "192.0.2.1:7000",
          "192.0.2.2:7000",
          unix_ms,
          {1.25e-4, 1.0 / 3 * 1e8, {{0, 1e-4}, {4096, 3e-4}}}};
}

class KnownLinksTest : public ::testing::Test {
 protected:
  void write(const std::string& text) { folder.write("links", text); }

  butterfly::testing::TempDir temp;
  StateFolder folder = StateFolder::make(temp.path() / "state");
};

TEST_F(KnownLinksTest, ComesBackToTheBit) {
  write_known_links(folder, {link('a', 'b', 5), link('a', 'c', 9)});
  const auto links = read_known_links(folder);
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].unix_ms, 9) << "the newest first";
  EXPECT_EQ(links[1].to, std::string(64, 'b'));
  EXPECT_EQ(links[1].to_address, "192.0.2.2:7000");
  EXPECT_EQ(links[1].figures.bandwidth, 1.0 / 3 * 1e8);
  ASSERT_EQ(links[1].figures.points.size(), 2u);
  EXPECT_EQ(links[1].figures.points[1].seconds, 3e-4);
}

TEST_F(KnownLinksTest, TheOldestGoWhenThereAreTooMany) {
  std::vector<KnownLink> links;
  for (size_t i = 0; i <= kKnownLinksMax; ++i) links.push_back(link('a', 'b', static_cast<int64_t>(i)));
  write_known_links(folder, links);
  const auto read = read_known_links(folder);
  ASSERT_EQ(read.size(), kKnownLinksMax);
  EXPECT_EQ(read.back().unix_ms, 1);
}

TEST_F(KnownLinksTest, ADamagedFileIsAsGoodAsNone) {
  EXPECT_TRUE(read_known_links(folder).empty());
  const std::string key(64, 'a');
  const std::string start = "butterfly links 1\n", pair = key + " " + key + " h:1 h:2 ";
  write(start + pair + "5 0.001 1e8\n");
  ASSERT_EQ(read_known_links(folder).size(), 1u);
  for (const std::string& row :
       {std::string("x"), pair + "5 0.001", pair + "5 0.001 nan", pair + "5 -1 1e8",
        pair + "5 0.001 1e8 4096", pair + "5 0.001 1e8 4096 x", "short " + key + " h:1 h:2 5 0.001 1e8"}) {
    write(start + row + "\n");
    EXPECT_TRUE(read_known_links(folder).empty()) << row;
  }
  write("another file\n" + pair + "5 0.001 1e8\n");
  EXPECT_TRUE(read_known_links(folder).empty());
}

}  // namespace
}  // namespace butterfly::cluster
