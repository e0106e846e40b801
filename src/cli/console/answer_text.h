// What a model writes, on a terminal: wrapped between words, markdown in colours, and nothing that would
// steer the terminal.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace butterfly::cli {

// Takes text in pieces as it comes; a word is written when it is whole. Without colours the text stays as it
// was, marks included.
class AnswerText {
 public:
  using Write = std::function<void(std::string_view)>;
  struct Options {
    size_t width = 80;  // columns; 0: never wrapped
    bool colour = true;
  };
  AnswerText(Options options, Write write) : options_(options), write_(std::move(write)) {}

  void add(std::string_view piece);
  // The rest, and colours back to normal. Afterwards the next text may begin.
  void finish();

 private:
  void take(std::string_view character);  // one, in UTF-8
  void take_mark(char mark);
  void end_marks();
  bool begins_line(std::string_view character);
  void put(std::string_view character);
  void end_word();
  void new_line();
  void style(const char* codes);
  void set_styles();

  const Options options_;
  const Write write_;
  std::string rest_;  // of a character that is not whole
  std::string head_;  // of a line that may be a heading, a fence or an item of a list
  std::string word_;  // with codes of colours
  size_t word_columns_ = 0, column_ = 0, indent_ = 0;
  char mark_ = 0;  // '*' or '`', so many times:
  size_t marks_ = 0;
  bool at_line_begin_ = true, bold_ = false, code_ = false, heading_ = false, fence_ = false, info_ = false,
       glued_ = false;
};

}  // namespace butterfly::cli
