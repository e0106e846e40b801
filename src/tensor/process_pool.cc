#include "tensor/process_pool.h"

namespace butterfly {

TensorPool& process_pool() {
  static TensorPool* const pool = new TensorPool;
  return *pool;
}

}  // namespace butterfly
