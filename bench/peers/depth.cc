// Decode speed of llama.cpp or ik_llama.cpp behind a context that is read in once and kept in a file: reading
// it in again takes minutes per file and thread count, and only the tokens behind it are of interest.
//
//   depth MODEL THREADS DEPTH COUNT FLASH STATE_FILE     prints tokens/s, one line
//
// Not part of the build: it is compiled against a peer's own header and libraries, see bench/peers/race.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "llama.h"

namespace {

using Seconds = std::chrono::duration<double>;

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "depth: %s\n", why.c_str());
  std::exit(1);
}

llama_batch batch_of(llama_token* tokens, int count, int position) {
#ifdef PEER_IK
  return llama_batch_get_one(tokens, count, position, 0);
#else
  (void)position;
  return llama_batch_get_one(tokens, count);
#endif
}

void decode(llama_context* context, llama_token* tokens, int count, int position) {
  if (llama_decode(context, batch_of(tokens, count, position)) != 0) stop("a step failed");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) stop("MODEL THREADS DEPTH COUNT FLASH STATE_FILE");
  const int threads = std::atoi(argv[2]), depth = std::atoi(argv[3]), count = std::atoi(argv[4]);
  const bool flash = std::atoi(argv[5]) != 0;
  const char* state = argv[6];
  llama_backend_init();
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params model_options = llama_model_default_params();
  llama_context_params options = llama_context_default_params();
#ifdef PEER_IK
  model_options.repack_tensors = true;
  model_options.use_mmap = false;  // as its bench does with -rtr
  options.flash_attn = flash;
#else
  options.flash_attn_type = flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
#endif
  options.n_ctx = static_cast<uint32_t>(depth + count + 8);
  options.n_threads = threads;
  options.n_threads_batch = static_cast<int>(std::thread::hardware_concurrency());
  llama_model* model = llama_model_load_from_file(argv[1], model_options);
  if (model == nullptr) stop("cannot load the model");
  llama_context* context = llama_init_from_model(model, options);
  if (context == nullptr) stop("cannot make a context");

  std::vector<llama_token> tokens(static_cast<size_t>(depth));
  for (int i = 0; i < depth; ++i) tokens[static_cast<size_t>(i)] = 100 + i * 37 % 20000;
  std::vector<llama_token> kept(tokens.size());
  size_t found = 0;
  if (!llama_state_load_file(context, state, kept.data(), kept.size(), &found) || found != kept.size()) {
    constexpr int kChunk = 512;
    for (int at = 0; at < depth; at += kChunk)
      decode(context, tokens.data() + at, std::min(kChunk, depth - at), at);
    if (!llama_state_save_file(context, state, tokens.data(), tokens.size())) stop("cannot keep the context");
  }
  llama_token token = 7;
  decode(context, &token, 1, depth);  // untimed: pages are in, threads awake
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    token = 100 + i;
    decode(context, &token, 1, depth + 1 + i);
    (void)llama_get_logits(context);  // waits for the step
  }
  std::printf("%.3f\n", count / Seconds(std::chrono::steady_clock::now() - begin).count());
}
