// Weights on their way from a model file into layers: shapes checked, matrices packed.
#pragma once
#include <functional>
#include <string>

#include "base/thread_pool.h"
#include "graph/parameter.h"
#include "model/formats/model_file.h"

namespace butterfly::model {

// Bytes of tensors read so far, and in all. Called from the loading thread.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

// Reads tensors by name. Every read is guarded, so a file that is cut off while loading gives an Error, not a
// crash.
class WeightLoader {
 public:
  WeightLoader(const ModelFile& file, ThreadPool& pool, LoadProgress progress = {});

  bool has(const std::string& name) const { return file_.has(name); }
  // [out, in], packed for products; the file's pages are released afterwards.
  graph::Parameter matrix(const std::string& name, size_t out, size_t in);
  // [count], as floats. Missing: an Error, or an empty Parameter for the optional form.
  graph::Parameter vector(const std::string& name, size_t count);
  graph::Parameter optional_vector(const std::string& name, size_t count);
  // [rows, cols] as in the file, for look-ups of single rows.
  graph::Parameter table(const std::string& name, size_t rows, size_t cols);

  const ModelFile& file() const { return file_; }
  uint64_t packed_bytes() const { return packed_bytes_; }

 private:
  void loaded(const Tensor& tensor);

  const ModelFile& file_;
  ThreadPool& pool_;
  LoadProgress progress_;
  uint64_t done_bytes_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t packed_bytes_ = 0;
};

}  // namespace butterfly::model
