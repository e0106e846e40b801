// Training on this machine, step by step, as a YAML file describes it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace butterfly {

struct TrainedStep {
  uint64_t step = 0;  // that are done, this one included
  double loss = 0;    // mean over the targets
  double grad_norm = 0;
  double learning_rate = 0;
  size_t targets = 0;
  double seconds = 0;
};

// A run: data, network, optimizer. The weights after n steps depend on the file, the keys and the data alone.
// Movable; of one thread.
class Training {
 public:
  // The keys of docs/training.md; `keys` go before what the file says, and `config` may be empty. Begins
  // afresh, whatever output_dir holds. Throws std::runtime_error naming file, line and key.
  explicit Training(const std::string& config, const std::map<std::string, std::string>& keys = {});
  Training(Training&&) noexcept;
  Training& operator=(Training&&) noexcept;
  ~Training();

  uint64_t steps() const;  // of the whole run
  uint64_t step_count() const;
  bool done() const { return step_count() >= steps(); }

  // One step. Throws std::runtime_error when the run is over, and for a loss that is not finite.
  TrainedStep step();
  // Mean loss over the test data with the weights as they are; nothing without such data.
  std::optional<double> validate();
  // The weights as they are now, as a GGUF file in this folder (made if needed); its path.
  std::string save(const std::string& folder);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace butterfly
