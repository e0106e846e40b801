#include <fcntl.h>
#include <histedit.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <langinfo.h>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <cwchar>

#include "cli/console/interrupt.h"
#include "cli/console/line_editor.h"

namespace butterfly::cli {
namespace {

constexpr int kHistoryMax = 1000;
constexpr wchar_t kBreak = L'\u23CE';  // ⏎ stands for a newline inside of what is edited
constexpr std::string_view kBreakUtf8 = "\xE2\x8F\x8E";
constexpr size_t kPasteMax = 1 << 20;

std::atomic<bool> resized{false}, continued{false};
void on_resize(int) { resized = true; }
void on_continue(int) { continued = true; }

void watch(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // the read has to come back
  sigaction(signal, &action, nullptr);
}

// One byte, or nothing after Ctrl-C or at the end.
bool read_byte(EditLine* editor, unsigned char& byte) {
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got == 1) return true;
    if (got == 0 || errno != EINTR || interrupted()) return false;
    if (resized.exchange(false)) el_resize(editor);
    if (continued.exchange(false)) {
      el_set(editor, EL_PREP_TERM, 1);
      el_set(editor, EL_REFRESH);
    }
  }
}

// libedit tries again by itself when a signal comes, so that Ctrl-C would have to be pressed twice; and it
// knows UTF-8 only where the locale does.
int read_character(EditLine* editor, wchar_t* to) {
  unsigned char byte;
  if (!read_byte(editor, byte)) return -1;
  const int more = byte < 0xC0 ? 0 : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  uint32_t code = more == 0 ? byte : byte & (0x3F >> more);
  for (int i = 0; i < more; ++i) {
    if (!read_byte(editor, byte)) return -1;
    code = code << 6 | (byte & 0x3F);
  }
  *to = static_cast<wchar_t>(code);
  return 1;
}

// Terminals put what is pasted between ESC [200~ and ESC [201~: its newlines send nothing.
unsigned char take_paste(EditLine* editor, int) {
  const std::wstring end = L"\x1b[201~";
  std::wstring text;
  for (wchar_t c; text.size() < kPasteMax && el_wgetc(editor, &c) == 1;) {
    text += c;
    if (text.ends_with(end)) {
      text.resize(text.size() - end.size());
      break;
    }
  }
  for (wchar_t& c : text) {
    if (c == L'\r' || c == L'\n') c = kBreak;
    if (c == L'\t') c = L' ';
    if (c < L' ') c = L'?';
  }
  return el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char break_line(EditLine* editor, int) {
  const wchar_t text[] = {kBreak, L'\0'};
  return el_winsertstr(editor, text) == 0 ? CC_REFRESH : CC_ERROR;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

}  // namespace

struct LineEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event{};
  std::filesystem::path file;
  std::string prompt;

  static char* show_prompt(EditLine* editor) {
    State* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return self->prompt.data();
  }
};

LineEditor::LineEditor(std::filesystem::path history) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.file = std::move(history);
  // Widths of characters come from the locale; one without UTF-8 would show letters as codes.
  if (std::setlocale(LC_CTYPE, "") == nullptr || std::string_view(nl_langinfo(CODESET)) != "UTF-8")
    std::setlocale(LC_CTYPE, "C.UTF-8");
  s.editor = el_init("butterfly", stdin, stderr, stderr);
  s.history = history_init();
  ::history(s.history, &s.event, H_SETSIZE, kHistoryMax);
  ::history(s.history, &s.event, H_SETUNIQUE, 1);
  if (!s.file.empty()) ::history(s.history, &s.event, H_LOAD, s.file.c_str());
  el_set(s.editor, EL_CLIENTDATA, &s);
  el_set(s.editor, EL_EDITOR, "emacs");
  el_set(s.editor, EL_HIST, ::history, s.history);
  el_wset(s.editor, EL_GETCFN, read_character);
  el_set(s.editor, EL_PROMPT_ESC, State::show_prompt, '\1');
  // Wide: of narrow names libedit makes copies that it never frees.
  el_wset(s.editor, EL_ADDFN, L"take-paste", L"Take what is pasted as one text", take_paste);
  el_wset(s.editor, EL_ADDFN, L"break-line", L"Begin a line", break_line);
  el_set(s.editor, EL_BIND, "\\e[200~", "take-paste", nullptr);
  el_set(s.editor, EL_BIND, "\\e\\r", "break-line", nullptr);  // Alt-Enter
  el_set(s.editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_set(s.editor, EL_BIND, "\\e[1;5D", "ed-prev-word", nullptr);
  el_set(s.editor, EL_BIND, "\\e[1;5C", "em-next-word", nullptr);
  el_set(s.editor, EL_BIND, "\\e[3~", "ed-delete-next-char", nullptr);
  el_source(s.editor, nullptr);  // ~/.editrc
  watch(SIGWINCH, on_resize);
  watch(SIGCONT, on_continue);
}

LineEditor::~LineEditor() {
  if (!state_->file.empty()) {
    const mode_t before = ::umask(077);
    ::history(state_->history, &state_->event, H_SAVE, state_->file.c_str());
    ::umask(before);
  }
  history_end(state_->history);
  el_end(state_->editor);
}

LineEditor::Outcome LineEditor::read(const std::string& prompt, bool colour, std::string& line) {
  State& s = *state_;
  s.prompt = colour ? "\1\x1b[1;36m\1" + prompt + "\1\x1b[0m\1" : prompt;
  const auto paste_marks = [](const char* sequence) {
    if (::write(STDERR_FILENO, sequence, 8) != 8) return;  // a terminal that is gone is found out below
  };
  paste_marks("\x1b[?2004h");
  int count = 0;
  const char* text = el_gets(s.editor, &count);
  paste_marks("\x1b[?2004l");
  if (text == nullptr || count <= 0) return interrupted() ? Outcome::kInterrupted : Outcome::kEnd;
  line.assign(text, static_cast<size_t>(count));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  replace_all(line, kBreakUtf8, "\n");
  return Outcome::kLine;
}

void LineEditor::remember(const std::string& text) {
  std::string row = text;
  replace_all(row, "\n", kBreakUtf8);
  if (row.size() < kPasteMax) ::history(state_->history, &state_->event, H_ENTER, row.c_str());
}

}  // namespace butterfly::cli
