// What guessing ahead gains on text that repeats itself, and costs on text that does not.
#include <fmt/format.h>

#include "engine/load.h"
#include "engine/turns.h"

namespace butterfly::bench {
namespace {

// The text is dictated: whatever the model says, it goes on by these tokens.
class Dictation final : public model::TokenConstraint {
 public:
  explicit Dictation(std::vector<int32_t> text) : text_(std::move(text)) {}
  void mask(std::span<uint64_t> allowed) override {
    for (uint64_t& word : allowed) word = 0;
    const auto token = static_cast<size_t>(text_[at_ % text_.size()]);
    allowed[token / model::kTokensPerMaskWord] |= uint64_t{1} << token % model::kTokensPerMaskWord;
  }
  bool accept(int32_t token) override { return token == text_[at_++ % text_.size()]; }
  bool can_end() const override { return false; }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Dictation>(*this); }

 private:
  std::vector<int32_t> text_;
  size_t at_ = 0;
};

struct Text {
  const char* name;
  runtime::EngineRequest (*make)(const Setup&, uint64_t seed);
};

runtime::EngineRequest repeats_its_prompt(const Setup& setup, uint64_t seed) {
  auto request = plain_request(random_prompt(setup.prompt, setup.model.config.vocab, seed), setup.generate);
  request.constraint = std::make_unique<Dictation>(request.prompt);
  return request;
}

runtime::EngineRequest dictated_noise(const Setup& setup, uint64_t seed) {
  auto request = repeats_its_prompt(setup, seed);
  request.constraint =
      std::make_unique<Dictation>(random_prompt(setup.generate, setup.model.config.vocab, seed + 1000));
  return request;
}

runtime::EngineRequest greedy(const Setup& setup, uint64_t seed) {
  return plain_request(random_prompt(setup.prompt, setup.model.config.vocab, seed), setup.generate);
}

runtime::EngineRequest sampled(const Setup& setup, uint64_t seed) {
  auto request = greedy(setup, seed);
  request.sampling = {};
  request.sampling.seed = seed;
  return request;
}

// Eight different tokens in random order: there is always a match, and it is nearly always wrong.
runtime::EngineRequest misleading(const Setup& setup, uint64_t seed) {
  auto request = repeats_its_prompt(setup, seed);
  std::vector<int32_t> text(setup.generate);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(100 + random_u64(seed, 9, i) % 8);
  request.constraint = std::make_unique<Dictation>(std::move(text));
  return request;
}

constexpr Text kTexts[] = {
    {"repeats its prompt", repeats_its_prompt},
    {"greedy (falls into loops)", greedy},
    {"sampled, defaults", sampled},
    {"noise", dictated_noise},
    {"eight tokens, misleading", misleading},
};

// One of two engines that write the same texts in turns, one with guesses and one without.
struct Contender {
  Contender(const Setup& setup, Turns& turns, size_t party, bool speculate)
      : turns_(turns), party_(party), open_(setup.streams) {
    runtime::PagedLayersOptions layers;
    layers.positions = setup.streams * (setup.prompt + setup.generate + 64);
    layers.sequences = setup.streams;
    runtime::EngineOptions options;
    options.scheduler.running_max = setup.streams;
    options.scheduler.speculate = speculate;
    auto local = std::make_unique<runtime::LocalChain>(setup.model, setup.compute, layers);
    engine_ = std::make_unique<runtime::Engine>(
        std::make_unique<TurnChain>(std::move(local), turns, party, clock_), nullptr, options, clock_);
  }

  void begin(const Setup& setup, const Text& text, uint64_t seed) {
    for (size_t i = 0; i < setup.streams; ++i)
      streams_.push_back(
          start(*engine_, text.make(setup, 10 * seed + i), std::make_shared<Recorder>(clock_, [this] {
            if (--open_ == 0) turns_.leave(party_);
          })));
  }

  // Tokens per second behind the first token.
  double rate(runtime::Usage* usage) {
    Seconds begin = 0, end = 0;
    size_t tokens = 0;
    for (auto& stream : streams_) {
      *usage = stream->wait().usage;
      begin = std::max(begin, stream->arrivals().front().when);
      end = std::max(end, stream->finished());
    }
    for (auto& stream : streams_)
      for (const auto& arrival : stream->arrivals())
        if (arrival.when > begin) tokens += arrival.tokens;
    return static_cast<double>(tokens) / (end - begin);
  }

 private:
  Turns& turns_;
  const size_t party_;
  std::atomic<size_t> open_;
  TurnClock clock_;
  std::unique_ptr<runtime::Engine> engine_;
  std::vector<std::shared_ptr<Recorder>> streams_;
};

}  // namespace

void measure_speculation(const Setup& setup) {
  fmt::print("{} streams, prompts of {}, {} tokens each; without and with guesses, step by step in turns\n",
             setup.streams, setup.prompt, setup.generate);
  fmt::print("{:>26} {:>5} {:>12} {:>12} {:>8} {:>16}\n", "text", "round", "without t/s", "with t/s", "ratio",
             "guessed (right)");
  for (const Text& text : kTexts) {
    double without_sum = 0, with_sum = 0;
    for (size_t round = 1; round <= setup.rounds; ++round) {
      runtime::Usage usage;
      Turns turns(2);
      Contender plain(setup, turns, 0, false), guessing(setup, turns, 1, true);
      plain.begin(setup, text, round);
      guessing.begin(setup, text, round);
      const double without = plain.rate(&usage), with = guessing.rate(&usage);
      without_sum += 1 / without;
      with_sum += 1 / with;
      fmt::print("{:>26} {:>5} {:>12.2f} {:>12.2f} {:>8.3f} {:>9} ({})\n", text.name, round, without, with,
                 with / without, usage.draft_tokens, usage.draft_accepted);
      std::fflush(stdout);
    }
    fmt::print("{:>26} {:>5} {:>12} {:>12} {:>8.3f}\n", text.name, "all", "", "", without_sum / with_sum);
  }
}

}  // namespace butterfly::bench
