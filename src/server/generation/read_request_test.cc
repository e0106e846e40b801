// What requests cost before they are let in.
#include "server/generation/read_request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/testing/temp_dir.h"
#include "model/formats/gguf.h"
#include "server/generation/heavy_work.h"
#include "server/testing/running_server.h"

namespace butterfly::server {
namespace {

// Threads for short requests leave what takes long to others, whatever made it long: here a template.
TEST(ReadRequest, LongRenderingsAreHeavyWork) {
  const butterfly::testing::TempDir folder;
  testing::write_test_model(folder / "m.gguf");
  const auto tokenizer = model::make_tokenizer(model::GgufFile::open(folder / "m.gguf").metadata());
  const model::ChatPrompter endless(
      *tokenizer, "{% for i in range(9999) %}{% for j in range(9999) %}{{ i }}{% endfor %}{% endfor %}");
  const model::ChatPrompter plain(*tokenizer, "");
  Json messages = json_of_text<Json>(R"([{"role":"user","content":"Hello"}])");
  const model::ChatRequest conversation{.messages = &messages};
  this_thread_is_light = true;
  EXPECT_THROW(render_chat(endless, conversation), HeavyWork);
  EXPECT_FALSE(render_chat(plain, conversation).text.empty());
  // A conversation of some turns is no long one.
  for (int i = 0; i < 40; ++i) messages.push_back(messages[0]);
  EXPECT_NO_THROW(render_chat(plain, conversation));
  this_thread_is_light = false;
  EXPECT_THROW(render_chat(endless, conversation), Error) << "its own limit holds there";
}

}  // namespace
}  // namespace butterfly::server
