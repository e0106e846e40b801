#include "cli/console/text_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/terminal.h"

namespace butterfly::cli {
namespace {

std::string read_all(int fd, const std::string& name) {
  std::string text;
  char chunk[1 << 16];
  while (true) {
    const ssize_t got = ::read(fd, chunk, sizeof(chunk));
    if (got == 0) return text;
    if (got > 0) {
      text.append(chunk, static_cast<size_t>(got));
      continue;
    }
    if (errno != EINTR) fail(Errc::kIo, "{}: cannot read: {}", name, std::strerror(errno));
    throw_if_interrupted();
  }
}

std::string read_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const Errc code = errno == ENOENT || errno == ENOTDIR ? Errc::kNotFound : Errc::kIo;
    fail(code, "{}: cannot open: {}", path, std::strerror(errno));
  }
  struct Closer {
    int fd;
    ~Closer() { close(fd); }
  } closer{fd};
  return read_all(fd, path);
}

}  // namespace

void TextInput::add_to(CLI::App& app, bool plain) {
  Flag text = add_option(app, "-p,--prompt", prompt, "The text").type_name("TEXT");
  add_option(app, "-f,--file", file, "Take the text from a file; - is stdin")
      .type_name("FILE")
      .excludes(text);
  if (plain) add_option(app, "TEXT", argument, "The same as -p TEXT").excludes(text);
}

bool TextInput::is_left_to_a_person() const {
  return !prompt && !file && !argument && is_terminal(STDIN_FILENO);
}

bool TextInput::is_like_a_message() const { return argument.has_value() || (!prompt && !file); }

std::string TextInput::read() const {
  if (prompt) return *prompt;
  if (argument) return *argument;
  if (file && *file != "-") return read_file(*file);
  if (is_left_to_a_person()) {
    fail(Errc::kInvalidArgument, "no text: give -p TEXT or -f FILE, or pipe it in");
  }
  return read_all(STDIN_FILENO, "stdin");
}

}  // namespace butterfly::cli
