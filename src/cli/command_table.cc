#include "cli/command_table.h"

#include <algorithm>
#include <vector>

#include "cli/commands/commands.h"

namespace butterfly::cli {
namespace {

constexpr Command kCommands[] = {
    {"run", "Text from a model: -p PROMPT, -f FILE or a pipe", "Use", true, setup_run},
    {"bench", "Speed of a model, in llama-bench's terms, or of the machine", "Use", true, setup_bench},
    {"show", "What a model file holds: architecture, sizes, types", "Models", true, setup_show},
    {"tokenize", "A text as the token ids the model sees", "Models", true, setup_tokenize},
    {"make-model", "Write a model with random weights, for tests and benches", "Models", true,
     setup_make_model},
    {"version", "What this program is and which CPU target it uses", "This program", true, setup_version},
};

// Levenshtein distance: insertions, deletions and replacements from one word to the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::span<const Command> command_table() { return kCommands; }

const Command* find_command(std::string_view name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

std::string_view nearest_command(std::string_view typed) {
  std::string_view nearest;
  size_t smallest = std::max<size_t>(1, typed.size() / 3) + 1;
  for (const Command& command : kCommands) {
    const size_t steps = distance(typed, command.name);
    if (steps < smallest) {
      smallest = steps;
      nearest = command.name;
    }
  }
  return nearest;
}

}  // namespace butterfly::cli
