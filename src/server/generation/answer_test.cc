// What the engine is asked for the choices of an answer.
#include "server/generation/answer.h"

#include <gtest/gtest.h>

namespace butterfly::server {
namespace {

TEST(RequestFor, EveryChoiceHasTheOptionsOfTheRequest) {
  Generation generation;
  generation.prompts = {{1, 2}, {3, 4, 5}};
  generation.n = 2;
  runtime::RequestOptions& asked = generation.request;
  asked.kind = runtime::RequestKind::kEmbed;
  asked.sampling.temperature = 0.25f;
  asked.sampling.seed = 40;
  asked.tokens_max = 7;
  asked.stops = {"stop"};
  asked.ignore_eos = asked.show_special = asked.logprobs = asked.prompt_logprobs = true;
  asked.top_logprobs = 3;
  asked.deadline = TimePoint(std::chrono::seconds(9));
  asked.client = 11;
  asked.reuse_prefix = asked.speculate = false;
  Choice choice;
  choice.index = 3;
  choice.prompt = 1;
  const runtime::EngineRequest request = request_for(generation, choice);
  EXPECT_EQ(request.prompt, (std::vector<int32_t>{3, 4, 5}));
  EXPECT_EQ(request.sampling.seed, 41u) << "the second answer to its prompt";
  EXPECT_EQ(request.kind, asked.kind);
  EXPECT_EQ(request.sampling.temperature, asked.sampling.temperature);
  EXPECT_EQ(request.tokens_max, asked.tokens_max);
  EXPECT_EQ(request.stops, asked.stops);
  EXPECT_TRUE(request.ignore_eos && request.show_special && request.logprobs && request.prompt_logprobs);
  EXPECT_EQ(request.top_logprobs, asked.top_logprobs);
  EXPECT_EQ(request.deadline, asked.deadline);
  EXPECT_EQ(request.client, asked.client);
  EXPECT_FALSE(request.reuse_prefix);
  EXPECT_FALSE(request.speculate);
  EXPECT_EQ(request.constraint, nullptr);
}

}  // namespace
}  // namespace butterfly::server
