// Rows of digest_table.h for the kernels of training.
#pragma once
#include "kernels/digest/digest.h"

namespace butterfly::kernels {

void digest_gemm(Digest& digest);
void digest_conv2d(Digest& digest);
void digest_pool2d(Digest& digest);
void digest_activation_backward(Digest& digest);
void digest_norm_backward(Digest& digest);
void digest_norm_parts_backward(Digest& digest);
void digest_loss_and_optimizer(Digest& digest);
void digest_recurrent_backward(Digest& digest);

}  // namespace butterfly::kernels
