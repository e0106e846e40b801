#include "kernels/cross_entropy.h"

namespace butterfly::kernels {

void cross_entropy_backward(float* logits, size_t rows, size_t vocab, const int32_t* targets, float grad,
                            float* losses, ThreadPool&) {
  ref::cross_entropy_backward(logits, rows, vocab, targets, grad, losses);
}
void cross_entropy(const float* logits, size_t rows, size_t vocab, const int32_t* targets, float* losses,
                   ThreadPool&) {
  ref::cross_entropy(logits, rows, vocab, targets, losses);
}

}  // namespace butterfly::kernels
