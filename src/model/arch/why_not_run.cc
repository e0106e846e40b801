#include "model/arch/why_not_run.h"

#include "base/error.h"
#include "base/thread_pool.h"
#include "model/arch/network.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {

std::string why_not_run(const ModelFile& file) {
  try {
    const Architecture& architecture = architecture_of(file);
    const ModelConfig config = read_config(file);
    ThreadPool pool(1);
    for (size_t piece = 0; piece < config.layers + 2; ++piece) {  // embedding, blocks, head
      WeightLoader weights(file, pool);
      weights.leave_values();
      architecture.load(config, weights, range_of_pieces(piece, piece + 1, config.layers));
    }
    // A llama2.c file may have its tokenizer anywhere.
    if (file.metadata().has("tokenizer.ggml.model")) make_tokenizer(file.metadata());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace butterfly::model
