#include "kernels/attention_train.h"

namespace butterfly::kernels {

void attention_forward(const AttentionShape& shape, AttentionRows q, AttentionRows k, AttentionRows v,
                       AttentionRowsOut out, ThreadPool&) {
  ref::attention_forward(shape, q, k, v, out);
}
void attention_backward(const AttentionShape& shape, AttentionRows q, AttentionRows k, AttentionRows v,
                        AttentionRows dout, AttentionRowsOut dq, AttentionRowsOut dk, AttentionRowsOut dv,
                        ThreadPool&) {
  ref::attention_backward(shape, q, k, v, dout, dq, dk, dv);
}

}  // namespace butterfly::kernels
