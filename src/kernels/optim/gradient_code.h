// Gradients in fewer bits, for links: bf16, or blocks of int8 or of 4 bits with a scale each.
//
// Element by element and block by block, the same bits on every machine (ref/gradient_code.cc):
//
//   bf16    nearest, ties to even
//   int8    x = value + residual;  m = max |x| of the block;  scale = m / 127;  q = nearest(x (127 / m))
//           value = q scale, as whoever decodes has it;  residual = x - value
//   int4    the same with 7 for 127 and smaller blocks; of a block of n values, byte i has those of i (low
//   bits)
//           and of ceil(n / 2) + i (high bits), in two's complement
//
// A block with a value that is not finite decodes to NaN everywhere: a broken gradient stays one. One whose
// largest value is below 2^-100 is sent as zeros, and all of it stays in the residual.
#pragma once
#include <cstddef>
#include <cstdint>

namespace butterfly::kernels {

inline constexpr size_t kCodeBlock = 128;  // 3 % for scales; blocks of one matrix row or a few
inline constexpr size_t code_blocks(size_t count) { return (count + kCodeBlock - 1) / kCodeBlock; }

inline constexpr size_t kCode4Block = 64;  // with its scale 4.5 bits a value
inline constexpr size_t code4_blocks(size_t count) { return (count + kCode4Block - 1) / kCode4Block; }
inline constexpr size_t code4_bytes(size_t count) {
  return count / kCode4Block * (kCode4Block / 2) + (count % kCode4Block + 1) / 2;
}

// values [count] become what decoding gives.
void encode_bf16(float* values, uint16_t* code, size_t count);
void decode_bf16(const uint16_t* code, float* values, size_t count);

// scales [code_blocks(count)]. What coding loses goes into residual [count], which is added first.
void encode_int8(float* values, float* residual, float* scales, int8_t* code, size_t count);
void decode_int8(const float* scales, const int8_t* code, float* values, size_t count);

// scales [code4_blocks(count)], code [code4_bytes(count)].
void encode_int4(float* values, float* residual, float* scales, int8_t* code, size_t count);
void decode_int4(const float* scales, const int8_t* code, float* values, size_t count);

namespace ref {
void encode_bf16(float* values, uint16_t* code, size_t count);
void decode_bf16(const uint16_t* code, float* values, size_t count);
void encode_int8(float* values, float* residual, float* scales, int8_t* code, size_t count);
void decode_int8(const float* scales, const int8_t* code, float* values, size_t count);
void encode_int4(float* values, float* residual, float* scales, int8_t* code, size_t count);
void decode_int4(const float* scales, const int8_t* code, float* values, size_t count);
}  // namespace ref

}  // namespace butterfly::kernels
