// What a text may go on with: the set of next tokens that a grammar or a schema allows.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace butterfly::model {

// 64 tokens to a word: token t is bit t % 64 of word t / 64.
inline constexpr size_t kTokensPerMaskWord = 64;
inline constexpr size_t mask_words(size_t vocab) {
  return (vocab + kTokensPerMaskWord - 1) / kTokensPerMaskWord;
}

// The state of one text under its rules. It belongs to one request and is called by one thread at a time;
// what many requests share (a compiled grammar, the vocabulary as a tree) stands behind it and does not
// change.
//
// The state is a function of the tokens accepted so far. Only tokens that were really chosen are accepted: a
// guessed continuation is checked by choosing under the mask, position by position, so nothing has to be
// taken back. Every call is bounded in time by the rules' limits, whatever the tokens are.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Writes which tokens may come next; `allowed` has mask_words(vocabulary) words, all are written, and bits
  // behind the vocabulary are 0. Tokens that end a text (Tokenizer::is_end_of_generation) are allowed if and
  // only if can_end(). No bit at all: the text is over if can_end(), else it is in a dead end.
  virtual void mask(std::span<uint64_t> allowed) = 0;

  // Goes on by a token that the mask allowed and that does not end the text. False: the token does not fit,
  // and the state is as before.
  [[nodiscard]] virtual bool accept(int32_t token) = 0;

  // True if the text is whole as it stands.
  virtual bool can_end() const = 0;

  // After a mask without a bit, for the user.
  virtual std::string why_dead_end() const {
    return "no token of the model's vocabulary continues the text under its rules";
  }

  // Another text in the same state. For several answers to one question, and for looking ahead.
  virtual std::unique_ptr<TokenConstraint> clone() const = 0;
};

}  // namespace butterfly::model
