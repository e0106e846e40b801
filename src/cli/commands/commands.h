// The setup function of each command; see Command in command.h. One file per command beside this one.
#pragma once
#include "cli/commands/command.h"

namespace butterfly::cli {

CommandBody setup_bench(CLI::App& app);
CommandBody setup_chat(CLI::App& app);
CommandBody setup_convert(CLI::App& app);
CommandBody setup_finetune(CLI::App& app);
CommandBody setup_merge(CLI::App& app);
CommandBody setup_doctor(CLI::App& app);
CommandBody setup_eval(CLI::App& app);
CommandBody setup_import(CLI::App& app);
CommandBody setup_init(CLI::App& app);
CommandBody setup_join(CLI::App& app);
CommandBody setup_launch(CLI::App& app);
CommandBody setup_list(CLI::App& app);
CommandBody setup_load(CLI::App& app);
CommandBody setup_make_corpus(CLI::App& app);
CommandBody setup_make_model(CLI::App& app);
CommandBody setup_node(CLI::App& app);
CommandBody setup_perplexity(CLI::App& app);
CommandBody setup_plan(CLI::App& app);
CommandBody setup_promote(CLI::App& app);
CommandBody setup_ps(CLI::App& app);
CommandBody setup_pull(CLI::App& app);
CommandBody setup_quantize(CLI::App& app);
CommandBody setup_rm(CLI::App& app);
CommandBody setup_run(CLI::App& app);
CommandBody setup_serve(CLI::App& app);
CommandBody setup_show(CLI::App& app);
CommandBody setup_simulate(CLI::App& app);
CommandBody setup_status(CLI::App& app);
CommandBody setup_stop(CLI::App& app);
CommandBody setup_token(CLI::App& app);
CommandBody setup_tokenize(CLI::App& app);
CommandBody setup_unload(CLI::App& app);
CommandBody setup_train(CLI::App& app);
CommandBody setup_train_tokenizer(CLI::App& app);
CommandBody setup_version(CLI::App& app);

}  // namespace butterfly::cli
