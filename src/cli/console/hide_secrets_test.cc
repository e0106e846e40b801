#include "cli/console/hide_secrets.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace butterfly::cli {
namespace {

TEST(HideSecrets, CoversKeysAndNothingElse) {
  std::vector<std::string> words = {"butterfly", "serve",    "--api-key",    "bf-0123456789",
                                    "--port",    "9000",     "--api-key=k1", "--api-key-file",
                                    "keys",      "--api-key"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  hide_secrets(static_cast<int>(argv.size()), argv.data());
  EXPECT_EQ(words, (std::vector<std::string>{"butterfly", "serve", "--api-key", "xxxxxxxxxxxxx", "--port",
                                             "9000", "--api-key=xx", "--api-key-file", "keys", "--api-key"}));
}

}  // namespace
}  // namespace butterfly::cli
