// `butterfly convert` and `butterfly quantize`: any model as GGUF, with the types it has or with fewer bits.
#include "model/formats/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

#include "base/error.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/console/progress.h"
#include "cli/models/model_input.h"
#include "cli/models/model_store.h"

namespace butterfly::cli {
namespace {

struct ConvertCommand {
  std::string in;
  std::string out;
  std::string type;
  std::string tokenizer;
  size_t threads = 0;
  model::ConvertOptions options;
};

const model::FileType* type_named(const std::string& name) {
  if (name.empty()) return nullptr;
  if (const model::FileType* type = model::file_type_by_name(name)) return type;
  std::vector<std::string_view> names;
  for (const model::FileType& type : model::file_types()) names.push_back(type.name);
  fail(Errc::kInvalidArgument, "no file type '{}'; there are {}", name, fmt::join(names, ", "));
}

int convert(ConvertCommand& command) {
  const auto start = std::chrono::steady_clock::now();
  command.options.type = type_named(command.type);
  const model::ModelFile from =
      model::open_model(resolve_model(command.in), {.tokenizer_path = command.tokenizer});
  ThreadPool pool(command.threads);
  model::ConvertResult result;
  {
    Progress bar(command.options.type ? fmt::format("to {}", command.options.type->name) : "converting",
                 from.tensor_bytes(), ProgressUnit::kBytes);
    try {
      result = model::convert_model(from, command.out, command.options, pool,
                                    [&](uint64_t done, uint64_t, const std::string&) {
                                      throw_if_interrupted();
                                      bar.update(done);
                                    });
    } catch (const model::RequantizeError& error) {
      fail(error.code(), "{}; --allow-requantize does it all the same", error.what());
    }
  }
  const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
  fmt::print(stderr, "wrote {} ({}, {:.2f} bits per weight, from {}) in {}\n", command.out,
             format_bytes(result.bytes),
             8.0 * static_cast<double>(result.bytes) /
                 static_cast<double>(std::max<uint64_t>(1, from.parameter_count())),
             format_bytes(from.file_bytes()), format_duration(time));
  if (result.fallbacks > 0)
    fmt::print(stderr,
               "butterfly: note: {} of {} tensors have rows that blocks of {} do not divide; they got "
               "another type\n",
               result.fallbacks, from.tensors().size(), dtype_info(command.options.type->base).block_values);
  return kExitOk;
}

std::shared_ptr<ConvertCommand> common_flags(CLI::App& app) {
  auto command = std::make_shared<ConvertCommand>();
  add_option(app, "IN", command->in, "Model to read: a file, a Hugging Face folder, a name from the store")
      .required();
  add_option(app, "OUT", command->out, "The GGUF file to write; replaced only when all went well").required();
  add_threads_flag(app, command->threads);
  add_flag(app, "--pure", command->options.pure, "Every matrix the same type, no mixture");
  add_flag(app, "--allow-requantize", command->options.allow_requantize,
           "Also from values that were quantised before, at a loss");
  return command;
}

}  // namespace

CommandBody setup_convert(CLI::App& app) {
  auto command = common_flags(app);
  add_option(app, "--type", command->type, "File type, such as F16, Q8_0 or Q4_K_M (default: types stay)")
      .type_name("TYPE");
  add_option(app, "--tokenizer", command->tokenizer,
             "Vocabulary of a llama2.c model (default: tokenizer.bin beside it)")
      .type_name("FILE");
  return [command] { return convert(*command); };
}

CommandBody setup_quantize(CLI::App& app) {
  auto command = common_flags(app);
  std::vector<std::string> rows;
  for (const model::FileType& type : model::file_types())
    rows.push_back(fmt::format("  {:<8}{}", type.name, type.words));
  add_option(app, "TYPE", command->type, "File type: Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0 ... (listed below)")
      .required();
  set_footer(app, fmt::format("Types:\n{}", fmt::join(rows, "\n")));
  return [command] { return convert(*command); };
}

}  // namespace butterfly::cli
