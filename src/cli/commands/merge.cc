// `butterfly merge`: a model with adapters added into its matrices, as one GGUF file.
#include "model/adapter/merge.h"

#include <fmt/format.h>

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
#include "model/formats/convert.h"

namespace butterfly::cli {
namespace {

struct MergeCommand {
  std::string in;
  std::string out;
  std::vector<std::string> adapters;
  std::string type;
  size_t threads = 0;
  bool allow_requantize = false;
};

int merge(const MergeCommand& command) {
  const model::ModelFile base = model::open_model(resolve_model(command.in));
  std::vector<model::Adapter> adapters;
  for (const std::string& text : command.adapters)
    adapters.push_back(model::open_adapter(model::parse_adapter_spec(text), base));
  ThreadPool pool(command.threads);
  const model::ModelFile merged = model::merged_model(base, std::move(adapters), pool);
  model::ConvertOptions options{.allow_requantize = command.allow_requantize};
  if (command.type.empty()) {
    options.types_of = &base;
  } else {
    options.type = model::file_type_by_name(command.type);
    if (options.type == nullptr)
      fail(Errc::kInvalidArgument, "no file type '{}'; 'butterfly quantize --help' lists them", command.type);
  }
  model::ConvertResult result;
  {
    Progress bar("merging", merged.tensor_bytes(), ProgressUnit::kBytes);
    try {
      result = model::convert_model(merged, command.out, options, pool,
                                    [&](uint64_t done, uint64_t, const std::string&) {
                                      throw_if_interrupted();
                                      bar.update(done);
                                    });
    } catch (const model::RequantizeError& error) {
      fail(error.code(), "{}; --allow-requantize does it all the same", error.what());
    }
  }
  fmt::print(stderr, "wrote {} ({})\n", command.out, format_bytes(result.bytes));
  return kExitOk;
}

}  // namespace

CommandBody setup_merge(CLI::App& app) {
  auto command = std::make_shared<MergeCommand>();
  add_option(app, "MODEL", command->in, "Model to read: a file, a Hugging Face folder, a name from the store")
      .required();
  add_option(app, "OUT", command->out, "The GGUF file to write; replaced only when all went well").required();
  add_option(
      app, "--lora", command->adapters,
      "Adapter to add: a GGUF file or a folder of PEFT's, with :SCALE behind it or not; may come again")
      .type_name("ADAPTER")
      .required();
  add_option(app, "--type", command->type,
             "File type, such as F16, Q8_0 or Q4_K_M (default: each matrix the type that it had)")
      .type_name("TYPE");
  add_flag(app, "--allow-requantize", command->allow_requantize,
           "Also matrices that no adapter changes, at a loss");
  add_threads_flag(app, command->threads);
  return [command] { return merge(*command); };
}

}  // namespace butterfly::cli
