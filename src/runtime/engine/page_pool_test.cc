// Pages are lent, shared, kept and forgotten, and the books always balance.
#include "runtime/engine/page_pool.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <set>

namespace butterfly::runtime {
namespace {

using Tokens = std::vector<int32_t>;

TEST(PagePool, LendsEachPageOnceAndTakesItBack) {
  PagePool pool(3, 2);
  std::set<uint32_t> pages;
  for (int i = 0; i < 3; ++i) pages.insert(pool.allocate().value());
  EXPECT_EQ(pages.size(), 3u);
  EXPECT_FALSE(pool.allocate());
  EXPECT_EQ(pool.used(), 3u);
  for (uint32_t page : pages) pool.release(page);
  EXPECT_EQ(pool.available(), 3u);
  EXPECT_EQ(pool.kept(), 0u) << "what was never published is simply free";
}

TEST(PagePool, PublishedPagesAreFoundByParentAndTokens) {
  PagePool pool(4, 2);
  const uint32_t a = *pool.allocate(), b = *pool.allocate();
  const auto first = pool.publish(PagePool::kRoot, Tokens{1, 2}, a);
  const auto second = pool.publish(first.node, Tokens{3, 4}, b);
  EXPECT_EQ(first.page, a);
  EXPECT_EQ(pool.find(PagePool::kRoot, Tokens{1, 2})->page, a);
  EXPECT_EQ(pool.find(first.node, Tokens{3, 4})->page, b);
  EXPECT_FALSE(pool.find(PagePool::kRoot, Tokens{3, 4})) << "same tokens behind another beginning";
  EXPECT_FALSE(pool.find(first.node, Tokens{1, 2}));
  pool.release(b);
  pool.release(a);
  EXPECT_EQ(pool.kept(), 2u);
  EXPECT_EQ(pool.available(), 4u) << "kept pages can be given away";
  EXPECT_EQ(pool.find(first.node, Tokens{3, 4})->node, second.node) << "and are found until then";
}

TEST(PagePool, ASecondPageWithTheSameContentsGivesWayToTheFirst) {
  PagePool pool(4, 2);
  const uint32_t a = *pool.allocate(), b = *pool.allocate();
  const auto first = pool.publish(PagePool::kRoot, Tokens{1, 2}, a);
  const auto again = pool.publish(PagePool::kRoot, Tokens{1, 2}, b);
  EXPECT_EQ(again.page, a);
  EXPECT_EQ(again.node, first.node);
  pool.add_user(a);
  pool.release(b);
  EXPECT_EQ(pool.users(a), 2u);
  EXPECT_EQ(pool.available(), 3u);
}

TEST(PagePool, WhatIsForgottenTakesAllBehindItAlong) {
  PagePool pool(5, 1);
  const uint32_t a = *pool.allocate(), b = *pool.allocate(), c = *pool.allocate(), other = *pool.allocate();
  const auto first = pool.publish(PagePool::kRoot, Tokens{1}, a);
  const auto second = pool.publish(first.node, Tokens{2}, b);
  pool.publish(second.node, Tokens{3}, c);
  pool.publish(PagePool::kRoot, Tokens{9}, other);
  const auto entries = pool.published();
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_FALSE(entries[0].parent);
  EXPECT_EQ(entries[1].parent, a);
  EXPECT_EQ(entries[2].parent, b);
  EXPECT_EQ(entries[2].tokens[0], 3);
  for (const uint32_t page : {other, c}) pool.release(page);
  EXPECT_EQ(pool.kept(), 2u);
  pool.forget(std::vector<uint32_t>{b});
  EXPECT_TRUE(pool.is_published(a));
  EXPECT_FALSE(pool.is_published(b)) << "its user stays";
  EXPECT_EQ(pool.users(b), 1u);
  EXPECT_FALSE(pool.is_published(c)) << "nobody could find it";
  EXPECT_TRUE(pool.is_published(other));
  EXPECT_EQ(pool.kept(), 1u);
  EXPECT_EQ(pool.available(), 3u);
  const auto again = pool.publish(first.node, Tokens{2}, b);
  EXPECT_NE(again.node, second.node);
  pool.release(b);
  pool.forget(std::vector<uint32_t>{b});
  EXPECT_EQ(pool.available(), 4u);
}

TEST(PagePool, TheEndOfTheLeastRecentTextIsForgottenFirst) {
  PagePool pool(3, 1);
  const uint32_t a = *pool.allocate(), b = *pool.allocate(), c = *pool.allocate();
  const auto begin = pool.publish(PagePool::kRoot, Tokens{1}, a);
  pool.publish(begin.node, Tokens{2}, b);
  pool.publish(PagePool::kRoot, Tokens{9}, c);
  pool.release(b);
  pool.release(a);
  pool.release(c);
  EXPECT_EQ(*pool.allocate(), b);
  EXPECT_FALSE(pool.find(begin.node, Tokens{2}));
  EXPECT_TRUE(pool.find(PagePool::kRoot, Tokens{1}));
  pool.add_user(a);  // used again, so c is older now
  pool.release(a);
  EXPECT_EQ(*pool.allocate(), c);
  EXPECT_EQ(*pool.allocate(), a);
  EXPECT_FALSE(pool.allocate());
}

TEST(PagePool, ForgetsAllWithoutTakingPagesAway) {
  PagePool pool(3, 1);
  const uint32_t a = *pool.allocate(), b = *pool.allocate();
  pool.publish(PagePool::kRoot, Tokens{1}, a);
  pool.publish(PagePool::kRoot, Tokens{2}, b);
  pool.release(b);
  pool.forget_all();
  EXPECT_FALSE(pool.find(PagePool::kRoot, Tokens{1}));
  EXPECT_EQ(pool.used(), 1u);
  EXPECT_EQ(pool.kept(), 0u);
  pool.release(a);
  EXPECT_EQ(pool.available(), 3u);
}

// Texts over two tokens come and go; every text's pages hold that text, and users are counted.
TEST(PagePool, AnyOrderOfUseKeepsTheBooks) {
  EXPECT_TRUE(rc::check([] {
    PagePool pool(6, 1);
    struct Text {
      std::vector<uint32_t> pages;
      PagePool::NodeId node = PagePool::kRoot;
    };
    std::map<uint32_t, int32_t> contents;  // page -> token written last
    std::vector<Text> texts(3);
    const auto moves = *rc::gen::container<std::vector<uint8_t>>(rc::gen::arbitrary<uint8_t>());
    for (const uint8_t move : moves) {
      Text& text = texts[move % 3];
      if (move / 3 % 4 == 0) {
        while (!text.pages.empty()) {
          pool.release(text.pages.back());
          text.pages.pop_back();
        }
        text.node = PagePool::kRoot;
      } else {
        const Tokens token{move / 12 % 2};
        if (const auto known = pool.find(text.node, token)) {
          pool.add_user(known->page);
          text.pages.push_back(known->page);
          text.node = known->node;
          RC_ASSERT(contents[known->page] == token[0]);
        } else if (const auto page = pool.allocate()) {
          contents[*page] = token[0];
          text.pages.push_back(*page);
          text.node = pool.publish(text.node, token, *page).node;
        }
      }
      std::map<uint32_t, size_t> users;
      for (const Text& t : texts)
        for (uint32_t page : t.pages) ++users[page];
      RC_ASSERT(pool.used() == users.size());
      for (const auto& [page, count] : users) RC_ASSERT(pool.users(page) == count);
    }
  }));
}

}  // namespace
}  // namespace butterfly::runtime
