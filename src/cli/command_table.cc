#include "cli/command_table.h"

#include <algorithm>

#include "base/near_names.h"
#include "cli/commands/commands.h"

namespace butterfly::cli {
namespace {

constexpr Command kCommands[] = {
    {"run", "Text from a model: -p PROMPT, -f FILE or a pipe", "Use", true, setup_run},
    {"chat", "A conversation with a model, at the terminal", "Use", true, setup_chat},
    {"serve", "Models over HTTP: OpenAI's and Ollama's interfaces", "Use", true, setup_serve},
    {"launch", "An agent against a running server: claude, codex, ...", "Use", false, setup_launch},
    {"ps", "What running servers do", "Use", false, setup_ps},
    {"load", "Another model for a running server, or one that it unloaded", "Use", false, setup_load},
    {"unload", "Free the memory of a running server's model", "Use", false, setup_unload},
    {"stop", "End a running server; requests are finished first", "Use", false, setup_stop},
    {"init", "Make a cluster: keys, certificates, the line to join", "Use", true, setup_init},
    {"join", "Make this machine a node of a cluster, and work for it", "Use", true, setup_join},
    {"status", "Nodes, plan and health of the running cluster", "Use", true, setup_status},
    {"token", "Lines that let nodes join: new, list, revoke", "Use", false, setup_token},
    {"node", "Who belongs to the cluster: list, remove, drain, resume", "Use", false, setup_node},
    {"promote", "Make this standby lead its cluster: the one that led is gone", "Use", false, setup_promote},
    {"doctor", "What keeps a node or cluster from working, with the fix", "Use", false, setup_doctor},
    {"bench", "Speed of a model, in llama-bench's terms, or of the machine", "Use", true, setup_bench},
    {"plan", "Who would run what: a model on the machines of a file", "Use", false, setup_plan},
    {"simulate", "Play a workload against a plan: latency, load, failures", "Use", false, setup_simulate},
    {"train", "Train a model as a YAML file says; goes on by itself", "Use", true, setup_train},
    {"finetune", "Teach a model from your texts: MODEL DATA", "Use", true, setup_finetune},
    {"eval", "Loss on test data, or answers to questions", "Use", false, setup_eval},
    {"train-tokenizer", "Learn a vocabulary (byte-level BPE) from texts", "Use", false,
     setup_train_tokenizer},
    {"make-corpus", "Write stories and questions from a grammar, to train on", "Use", false,
     setup_make_corpus},
    {"show", "What a model file holds: architecture, sizes, types", "Models", true, setup_show},
    {"tokenize", "A text as the token ids the model sees", "Models", false, setup_tokenize},
    {"perplexity", "How well a model predicts a text: -f FILE", "Models", false, setup_perplexity},
    {"convert", "Write any readable model as a GGUF file", "Models", false, setup_convert},
    {"quantize", "Write a GGUF file with fewer bits per weight", "Models", true, setup_quantize},
    {"merge", "Write a model with an adapter added into it", "Models", false, setup_merge},
    {"list", "The models of the local store, for -m NAME", "Models", true, setup_list},
    {"pull", "Fetch a model from the web: hf.co/OWNER/REPO, or a URL", "Models", true, setup_pull},
    {"import", "Put a model file into the local store", "Models", false, setup_import},
    {"rm", "Remove a model from the local store", "Models", false, setup_rm},
    {"make-model", "Write a model with random weights, for tests and benches", "Models", false,
     setup_make_model},
    {"version", "What this program is and which CPU target it uses", "This program", false, setup_version},
};

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
    const size_t steps = edit_distance(typed, command.name);
    if (steps < smallest) {
      smallest = steps;
      nearest = command.name;
    }
  }
  return nearest;
}

}  // namespace butterfly::cli
