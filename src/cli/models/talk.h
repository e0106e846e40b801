// A conversation at a terminal: lines with history, answers that Ctrl-C stops, and commands that begin with
// '/'.
#pragma once
#include <string>

#include "cli/models/conversation.h"

namespace butterfly::cli {

struct TalkOptions {
  std::string model;  // its name, for /show
  runtime::RequestOptions request;
  bool quiet = false;  // no figures after the answers
};

// Until the person leaves (Ctrl-D, /bye, Ctrl-C twice at the prompt). Returns the exit status.
int talk(Conversation& conversation, TalkOptions options);

}  // namespace butterfly::cli
