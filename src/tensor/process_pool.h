// The pool of this process: what is needed again and again in similar sizes, by parts that know nothing of
// each other (bodies of messages, batches of training data, gradients). Its hit rate is in the server's
// metrics.
#pragma once
#include "tensor/tensor_pool.h"

namespace butterfly {

// Made at the first call, never destroyed: threads that outlive main() may still give buffers back.
TensorPool& process_pool();

}  // namespace butterfly
