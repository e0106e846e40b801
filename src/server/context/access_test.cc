#include "server/context/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/testing/temp_dir.h"

namespace butterfly::server {
namespace {

using ::testing::HasSubstr;

HttpRequest with(std::vector<std::pair<std::string, std::string>> fields) {
  HttpRequest request;
  request.fields = std::move(fields);
  return request;
}

TEST(AccessPolicy, NamesThatARebindingPageWouldSendAreRefused) {
  AccessOptions options;
  options.hosts = {"box.lan"};
  const AccessPolicy policy(options);
  for (const char* good : {"localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:8080", "[::1]:8080",
                           "[::1]", "192.168.1.7:80", "box.lan", "Box.Lan:8080", "localhost."})
    EXPECT_TRUE(policy.allows_host(good)) << good;
  for (const char* bad :
       {"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "", ":8080",
        "[::1", "[::1]x", "1.2.3", "0x7f.1", "2130706433", "box.lan.evil.example", "xbox.lan"})
    EXPECT_FALSE(policy.allows_host(bad)) << bad;
}

TEST(AccessPolicy, PagesOfOthersAreRefused) {
  AccessOptions options;
  options.origins = {"https://chat.example.org"};
  const AccessPolicy policy(options);
  for (const char* good : {"http://localhost", "http://localhost:3000", "https://127.0.0.1:8443",
                           "http://[::1]:5173", "https://chat.example.org"})
    EXPECT_TRUE(policy.allows_origin(good)) << good;
  for (const char* bad : {"null", "", "https://evil.example", "http://localhost.evil.example",
                          "https://chat.example.org.evil.example", "http://chat.example.org", "file://",
                          "chrome-extension://abc", "http://192.168.1.7"})
    EXPECT_FALSE(policy.allows_origin(bad)) << bad;
}

TEST(AccessPolicy, SiteIsCheckedFromTheHead) {
  const AccessPolicy policy{AccessOptions{}};
  EXPECT_FALSE(policy.check_site(with({{"host", "localhost"}})).has_value());
  EXPECT_EQ(policy.check_site(with({}))->status, 400);
  EXPECT_EQ(policy.check_site(with({{"host", "evil.example"}}))->status, 421);
  EXPECT_EQ(policy.check_site(with({{"host", "localhost"}, {"origin", "https://evil.example"}}))->status,
            403);
  EXPECT_EQ(policy.check_site(with({{"host", "localhost"}, {"sec-fetch-site", "cross-site"}}))->status, 403);
  EXPECT_FALSE(
      policy.check_site(with({{"host", "localhost"}, {"sec-fetch-site", "same-origin"}})).has_value());
}

TEST(AccessPolicy, ThePageOfThisServerMayUseIt) {
  AccessOptions options;
  options.hosts = {"box.lan"};
  const AccessPolicy policy(options);
  const auto allowed = [&](const char* host, const char* origin) {
    return !policy.check_site(with({{"host", host}, {"origin", origin}})).has_value();
  };
  EXPECT_TRUE(allowed("192.168.1.7:8080", "http://192.168.1.7:8080"));
  EXPECT_TRUE(allowed("Box.lan", "https://box.lan"));
  EXPECT_FALSE(allowed("192.168.1.7:8080", "http://192.168.1.7:8081")) << "another server of that machine";
  EXPECT_FALSE(allowed("192.168.1.7:8080", "http://192.168.1.7"));
  EXPECT_FALSE(allowed("192.168.1.7:8080", "http://192.168.1.70:8080"));
  EXPECT_FALSE(allowed("evil.example", "http://evil.example")) << "a name that was turned to this address";
  EXPECT_FALSE(allowed("192.168.1.7:8080", "null"));
}

TEST(AccessPolicy, ALinkToThePageMayBeFollowed) {
  const AccessPolicy policy{AccessOptions{}};
  HttpRequest request = with({{"host", "localhost"},
                              {"sec-fetch-site", "cross-site"},
                              {"sec-fetch-mode", "navigate"},
                              {"sec-fetch-dest", "document"}});
  request.method = "GET";
  request.path = "/";
  EXPECT_FALSE(policy.check_site(request).has_value());
  request.path = "/metrics";
  EXPECT_EQ(policy.check_site(request)->status, 403);
  request.path = "/";
  request.fields.back().second = "iframe";
  EXPECT_EQ(policy.check_site(request)->status, 403);
}

TEST(AccessPolicy, Operators) {
  AccessOptions options;
  options.keys.add("bf-0123456789abcdef");
  const AccessPolicy none(options);
  EXPECT_EQ(none.check_operator(with({{"x-api-key", "bf-0123456789abcdef"}}))->code, "no_operators");
  options.operators.add("bf-operator-operator");
  const AccessPolicy policy(options);
  EXPECT_EQ(policy.check_operator(with({}))->code, "not_an_operator");
  EXPECT_EQ(policy.check_operator(with({{"x-api-key", "bf-0123456789abcdef"}}))->code, "not_an_operator");
  EXPECT_FALSE(policy.check_operator(with({{"authorization", "Bearer bf-operator-operator"}})).has_value());
  uint64_t owner = 0;
  EXPECT_FALSE(policy.check_key(with({{"x-api-key", "bf-operator-operator"}}), &owner).has_value());
  EXPECT_NE(owner, 0u);
}

TEST(AccessPolicy, Keys) {
  AccessOptions options;
  options.keys.add("bf-0123456789abcdef");
  options.keys.add("another-secret-key");
  const AccessPolicy policy(options);
  uint64_t first = 0, second = 0, none = 7;
  EXPECT_FALSE(policy.check_key(with({{"authorization", "Bearer bf-0123456789abcdef"}}), &first).has_value());
  EXPECT_FALSE(policy.check_key(with({{"authorization", "bearer another-secret-key"}}), &second).has_value());
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, second);
  uint64_t plain = 0;
  EXPECT_FALSE(policy.check_key(with({{"x-api-key", "bf-0123456789abcdef"}}), &plain).has_value());
  EXPECT_EQ(plain, first) << "the same owner, whichever field it sends";
  EXPECT_FALSE(policy
                   .check_key(with({{"authorization", "Bearer of-another-server"},
                                    {"x-api-key", "bf-0123456789abcdef"}}),
                              &plain)
                   .has_value());
  EXPECT_TRUE(policy.check_key(with({{"x-api-key", "bf-0123456789abcdeg"}}), &plain).has_value());
  EXPECT_EQ(policy.check_key(with({}), &none)->code, "missing_api_key");
  EXPECT_EQ(none, 0u);
  for (const char* bad : {"Bearer bf-0123456789abcdeg", "Bearer bf-0123456789abcde", "Bearer ", "Bearer",
                          "Basic bf-0123456789abcdef", "bf-0123456789abcdef"}) {
    const auto error = policy.check_key(with({{"authorization", bad}}), &none);
    ASSERT_TRUE(error.has_value()) << bad;
    EXPECT_EQ(error->status, 401);
    EXPECT_THAT(error->what(), ::testing::Not(HasSubstr("abcde"))) << "a key must not come back";
  }
  EXPECT_THROW(options.keys.add("short"), Error);
  EXPECT_THROW(options.keys.add("with a blank in it"), Error);
}

TEST(KeySet, FileHoldsHashesAndOnlyItsOwnerReadsIt) {
  const butterfly::testing::TempDir folder;
  const auto file = folder / "keys";
  const std::string key = make_key_in(file), other = make_key_in(file);
  EXPECT_EQ(key.size(), 3 + 64u);
  EXPECT_NE(key, other);
  struct stat about {};
  ASSERT_EQ(::stat(file.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(text, ::testing::Not(HasSubstr(key.substr(3))));
  KeySet keys;
  keys.add_file(file);
  EXPECT_EQ(keys.size(), 2u);
  EXPECT_TRUE(keys.find(key).has_value());
  EXPECT_TRUE(keys.find(other).has_value());
  EXPECT_FALSE(keys.find(key + "0").has_value());

  KeySet mixed;
  const auto plain = folder.write("mixed", "# mine\n\n  plain-secret-key-1 \r\n");
  ::chmod(plain.c_str(), 0644);
  EXPECT_THROW(mixed.add_file(plain), Error) << "others may read the key";
  ::chmod(plain.c_str(), 0600);
  mixed.add_file(plain);
  EXPECT_TRUE(mixed.find("plain-secret-key-1").has_value());
  ::chmod(file.c_str(), 0644);
  keys.add_file(file);  // hashes may be read,
  ::chmod(file.c_str(), 0666);
  EXPECT_THROW(keys.add_file(file), Error) << "but nobody else may add some";
  const auto slow = folder.write("slow", "greedy-secret-key-1\tbackground\nplain-secret-key-2\n");
  ::chmod(slow.c_str(), 0600);
  mixed.add_file(slow);
  EXPECT_TRUE(mixed.is_background(mixed.find("greedy-secret-key-1").value()));
  EXPECT_FALSE(mixed.is_background(mixed.find("plain-secret-key-2").value()));
  EXPECT_THROW(mixed.add_file(folder.write("bad", "sha256:12\n")), Error);
  EXPECT_THROW(mixed.add_file(folder.write("none", "# nothing\n")), Error);
  EXPECT_THROW(mixed.add_file(folder / "absent"), Error);
}

TEST(IsLoopback, OnlyWhatStaysOnThisMachine) {
  for (const char* good : {"127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"})
    EXPECT_TRUE(is_loopback(good)) << good;
  for (const char* bad : {"0.0.0.0", "::", "192.168.0.1", "example.org", "1270.0.0.1", ""})
    EXPECT_FALSE(is_loopback(bad)) << bad;
}

}  // namespace
}  // namespace butterfly::server
