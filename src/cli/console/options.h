// Flags that several commands share, so that they mean the same everywhere.
//
// Every long flag can also be set in the environment: --log-level is BUTTERFLY_LOG_LEVEL. A flag beats the
// environment.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console/flags.h"

namespace butterfly::cli {

inline constexpr const char* kGeneralGroup = "General";  // heading of the flags of GeneralOptions

// What every command accepts; carried out by apply() before the command runs.
struct GeneralOptions {
  std::string log_level = "warn";
  std::string log_format = "text";
  std::string target;  // empty: the best this machine has

  void add_to(CLI::App& app);
  void apply() const;
};

// Whether the user chose it, by flag or environment: commands that run for long say more by themselves.
bool log_level_given(const CLI::App& app);

Flag add_threads_flag(CLI::App& app, size_t& threads);  // -t, --threads; 0 means all this process may use
Flag add_json_flag(CLI::App& app, bool& json);          // --json

// --lora FILE[:SCALE], several times.
Flag add_lora_flag(CLI::App& app, std::vector<std::string>& adapters);

// Gives each long flag without one its environment variable.
void add_environment_names(CLI::App& app);

// "log-level" -> "BUTTERFLY_LOG_LEVEL"
std::string environment_name(std::string_view long_flag);

}  // namespace butterfly::cli
