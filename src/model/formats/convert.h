// Any model that can be opened, written as GGUF: as it is, or in another element type. Streams, so memory
// stays small.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/thread_pool.h"
#include "model/formats/file_type.h"
#include "model/formats/model_file.h"

namespace butterfly::model {

struct ConvertOptions {
  const FileType* type = nullptr;  // null: types stay as they are
  bool pure = false;               // every matrix the type's base
  // Without a type: each tensor gets the type that it has in this file, which has the same tensors.
  const ModelFile* types_of = nullptr;
  // Values that were quantised once lose more when they are quantised again; that has to be asked for.
  bool allow_requantize = false;
};

// Values would be requantised without leave.
class RequantizeError : public Error {
 public:
  explicit RequantizeError(const std::string& text) : Error(Errc::kInvalidArgument, text) {}
};

// Bytes read so far and in all, and the tensor being worked on. May throw to stop.
using ConvertProgress = std::function<void(uint64_t done, uint64_t total, const std::string& tensor)>;

// What was written.
struct ConvertResult {
  uint64_t bytes = 0;
  size_t fallbacks = 0;  // tensors whose rows did not fit the chosen type's blocks
};

// Writes `to` whole or not at all; the same bytes for any number of threads. Throws Error: kInvalidArgument
// when `to` is one of the model's own files; RequantizeError; kUnsupported for values GGUF has no type for.
ConvertResult convert_model(const ModelFile& from, const std::filesystem::path& to,
                            const ConvertOptions& options, ThreadPool& pool,
                            const ConvertProgress& progress = {});

}  // namespace butterfly::model
