// Steps of training: train MODEL TEXT STEPS FOLDER goes on with a model file on a text, and writes what it
// learned.
#include <butterfly/training.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 5) throw std::runtime_error("usage: train MODEL TEXT STEPS FOLDER");
  butterfly::Training training("", {{"base_model", argv[1]},
                                    {"datasets", argv[2]},
                                    {"max_steps", argv[3]},
                                    {"output_dir", argv[4]},
                                    {"sequence_len", "64"},
                                    {"micro_batch_size", "4"},
                                    {"learning_rate", "0.001"}});
  while (!training.done()) {
    const butterfly::TrainedStep step = training.step();
    std::cout << "step " << step.step << " of " << training.steps() << ": loss " << step.loss << "\n";
  }
  std::cout << "wrote " << training.save(argv[4]) << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
