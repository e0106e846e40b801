#include "cli/download/url.h"

#include <gtest/gtest.h>

namespace butterfly::cli {
namespace {

TEST(Url, IsReadAndWritten) {
  const Url url = *parse_url("HTTPS://Example.org/a/b.gguf?download=true#top");
  EXPECT_TRUE(url.tls);
  EXPECT_EQ(url.authority(), "example.org:443");
  EXPECT_EQ(url.text(), "https://example.org/a/b.gguf?download=true");
  EXPECT_EQ(file_name_of(url), "b.gguf");
  EXPECT_EQ(parse_url("http://[::1]:8080")->authority(), "[::1]:8080");
  EXPECT_TRUE(parse_url("http://[::1]:8080")->on_loopback());
  EXPECT_EQ(parse_url("http://localhost?x")->target, "/?x");
}

TEST(Url, OthersAreRefused) {
  for (const char* text :
       {"", "file:///etc/passwd", "ftp://x/y", "example.org/a", "https://", "https://user:pass@host/",
        "https://host:port/", "https://host/a b", "https://host/a\r\nX: y", "https://[::1"})
    EXPECT_FALSE(parse_url(text)) << text;
}

TEST(Url, RedirectsStayInTheLight) {
  const Url from = *parse_url("https://hub.example/a/b");
  EXPECT_EQ(redirected(from, "/c?d")->text(), "https://hub.example/c?d");
  EXPECT_EQ(redirected(from, "https://cdn.example/e")->text(), "https://cdn.example/e");
  EXPECT_FALSE(redirected(from, "http://cdn.example/e"));
  EXPECT_FALSE(redirected(from, "//cdn.example/e"));
  EXPECT_FALSE(redirected(from, ""));
  EXPECT_FALSE(redirected(from, "/a\nb"));
}

TEST(Url, PathsAreEncoded) { EXPECT_EQ(url_encoded("a b/c?d%e"), "a%20b/c%3Fd%25e"); }

}  // namespace
}  // namespace butterfly::cli
