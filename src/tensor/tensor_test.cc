#include "tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/function_ref.h"

namespace butterfly {
namespace {

using ::testing::HasSubstr;

// [0, 1, 2 ...] in the given shape.
Tensor counting(Shape shape) {
  const Tensor tensor = Tensor::zeros(DType::kF32, shape);
  std::iota(tensor.data<float>(), tensor.data<float>() + tensor.count(), 0.0f);
  return tensor;
}

std::vector<float> values(const Tensor& tensor) {
  const Tensor copy = tensor.clone();
  return {copy.data<float>(), copy.data<float>() + copy.count()};
}

std::string refusal(FunctionRef<void()> fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kInvalidArgument);
    return error.what();
  }
  return "nothing was refused";
}

TEST(Tensor, FreshOnesAreZeroAndContiguous) {
  const Tensor tensor = Tensor::zeros(DType::kF32, {2, 3});
  EXPECT_EQ(tensor.count(), 6);
  EXPECT_EQ(tensor.bytes(), 24u);
  EXPECT_EQ(tensor.stride(0), 3);
  EXPECT_EQ(tensor.stride(1), 1);
  EXPECT_TRUE(tensor.contiguous());
  EXPECT_EQ(values(tensor), std::vector<float>(6, 0.0f));
}

TEST(Tensor, SliceTransposeReshapeBroadcastSeeTheSameMemory) {
  const Tensor tensor = counting({2, 3});
  EXPECT_EQ(values(tensor.slice(1, 1, 3)), (std::vector<float>{1, 2, 4, 5}));
  EXPECT_EQ(values(tensor.slice(0, 1, 2)), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(values(tensor.transpose(0, 1)), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(tensor.reshape({3, 2})), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values(tensor.slice(0, 0, 1).broadcast({2, 2, 3})),
            (std::vector<float>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  tensor.slice(1, 1, 3).transpose(0, 1).data<float>()[0] = 10;
  EXPECT_EQ(tensor.data<float>()[1], 10);
}

TEST(Tensor, ViewsShareAndCloneDoesNot) {
  const Tensor tensor = counting({4});
  EXPECT_EQ(tensor.buffer().use_count(), 1);
  const Tensor view = tensor.slice(0, 1, 2);
  EXPECT_EQ(tensor.buffer().use_count(), 2);
  EXPECT_EQ(view.raw(), tensor.raw() + 4);
  const Tensor copy = view.clone();
  EXPECT_EQ(tensor.buffer().use_count(), 2);
  copy.data<float>()[0] = 9;
  EXPECT_EQ(tensor.data<float>()[1], 1);
}

TEST(Tensor, ConstructionChecksTheBufferAndNamesBothNumbers) {
  const Buffer buffer = Buffer::allocate(24);
  EXPECT_NO_THROW(Tensor(buffer, DType::kF32, {2, 3}));
  EXPECT_NO_THROW(Tensor(buffer, DType::kF32, {2, 2}, 8));
  EXPECT_NO_THROW(Tensor(buffer, DType::kF32, {0, 5}, 24));
  const std::string text = refusal([&] { Tensor(buffer, DType::kF32, {2, 3}, 4); });
  EXPECT_THAT(text, HasSubstr("ends at byte 28"));
  EXPECT_THAT(text, HasSubstr("the buffer has 24"));
  EXPECT_THAT(refusal([&] { Tensor(buffer, DType::kF32, {0}, 25); }), HasSubstr("the buffer has 24"));
  EXPECT_THAT(refusal([&] { Tensor(Buffer(), DType::kU8, {1}); }), HasSubstr("the buffer has 0"));
}

TEST(Tensor, SizesThatDoNotFitAreRefusedBeforeAnyAllocation) {
  constexpr int64_t kBig = int64_t{1} << 40;
  const Buffer buffer = Buffer::allocate(64);
  EXPECT_THAT(refusal([&] { Tensor(buffer, DType::kU8, {kBig, kBig}); }), HasSubstr("64 bits"));
  EXPECT_THAT(refusal([&] { Tensor(buffer, DType::kU8, {int64_t{1} << 62}, SIZE_MAX); }),
              HasSubstr("64 bits"));
  EXPECT_THAT(refusal([&] { Tensor(buffer, DType::kI64, {int64_t{1} << 61}); }), HasSubstr("64 bits"));
  EXPECT_THAT(refusal([&] { Tensor::zeros(DType::kF32, {kBig, kBig}); }), HasSubstr("too large"));
  EXPECT_THAT(refusal([&] { Tensor::zeros(DType::kF32, {int64_t{1} << 62}); }), HasSubstr("too large"));
}

TEST(Tensor, BadViewsAreRefused) {
  const Tensor tensor = counting({2, 3});
  EXPECT_THAT(refusal([&] { tensor.slice(2, 0, 1); }), HasSubstr("axis 2"));
  EXPECT_THAT(refusal([&] { tensor.slice(0, -1, 1); }), HasSubstr("[-1, 1)"));
  EXPECT_THAT(refusal([&] { tensor.slice(0, 2, 1); }), HasSubstr("[2, 1)"));
  EXPECT_THAT(refusal([&] { tensor.slice(1, 0, 4); }), HasSubstr("[0, 4)"));
  EXPECT_THAT(refusal([&] { tensor.reshape({7}); }), HasSubstr("6 values"));
  EXPECT_THAT(refusal([&] { tensor.transpose(0, 1).reshape({6}); }), HasSubstr("clone()"));
  EXPECT_THAT(refusal([&] { tensor.transpose(0, 2); }), HasSubstr("axes 0 and 2"));
  EXPECT_THAT(refusal([&] { tensor.broadcast({2, 4}); }), HasSubstr("[2, 4]"));
  EXPECT_THAT(refusal([&] { tensor.broadcast({3}); }), HasSubstr("[3]"));
  EXPECT_THAT(refusal([&] { tensor.broadcast({int64_t{1} << 62, 2, 3}); }), HasSubstr("does not repeat"));
}

TEST(Tensor, ScalarAndEmptyTensors) {
  const Tensor scalar = Tensor::zeros(DType::kF32, {});
  EXPECT_EQ(scalar.count(), 1);
  scalar.data<float>()[0] = 3;
  EXPECT_EQ(values(scalar.broadcast({2, 2})), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_EQ(values(scalar.reshape({1, 1})), std::vector<float>{3});

  const Tensor empty = counting({2, 3}).slice(1, 3, 3);
  EXPECT_EQ(empty.count(), 0);
  EXPECT_TRUE(empty.contiguous());
  EXPECT_EQ(empty.clone().count(), 0);
  EXPECT_EQ(empty.reshape({0, 9}).shape(), Shape({0, 9}));
  EXPECT_EQ(empty.transpose(0, 1).slice(1, 1, 2).shape(), Shape({0, 1}));
}

TEST(Tensor, TypedAccessMustFit) {
  const Tensor tensor = counting({2});
  EXPECT_DEATH(tensor.data<double>(), "values of 8 bytes from F32");
  EXPECT_DEATH(tensor.data<uint8_t>(), "values of 1 bytes from F32");
  EXPECT_NE(Tensor::zeros(DType::kQ4_0, {32}).data<uint8_t>(), nullptr);
  struct Block {
    std::byte bytes[18];
  };
  EXPECT_NE(Tensor::zeros(DType::kQ4_0, {32}).data<Block>(), nullptr);
}

// Each block filled with its own number.
Tensor counting_blocks(DType dtype, Shape shape) {
  const Tensor tensor = Tensor::zeros(dtype, shape);
  const size_t block = dtype_info(dtype).block_bytes;
  for (size_t at = 0; at < tensor.bytes(); ++at) tensor.raw()[at] = static_cast<std::byte>(at / block);
  return tensor;
}

std::vector<int> blocks(const Tensor& tensor) {
  const Tensor copy = tensor.clone();
  const size_t block = dtype_info(copy.dtype()).block_bytes;
  std::vector<int> numbers;
  for (size_t at = 0; at < copy.bytes(); at += block) {
    numbers.push_back(static_cast<int>(copy.raw()[at]));
    for (size_t i = 1; i < block; ++i)
      EXPECT_EQ(copy.raw()[at + i], copy.raw()[at]) << "block " << at / block;
  }
  return numbers;
}

TEST(Tensor, QuantisedViewsMoveWholeBlocks) {
  const Tensor tensor = counting_blocks(DType::kQ4_0, {2, 3, 64});  // blocks 0 .. 11, two in a row
  EXPECT_EQ(tensor.bytes(), 12u * 18);
  EXPECT_EQ(tensor.stride(2), 1);
  EXPECT_EQ(tensor.stride(1), 64);
  EXPECT_EQ(blocks(tensor.slice(1, 1, 2)), (std::vector<int>{2, 3, 8, 9}));
  EXPECT_EQ(blocks(tensor.transpose(0, 1)), (std::vector<int>{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
  EXPECT_EQ(blocks(tensor.slice(2, 32, 64)), (std::vector<int>{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(blocks(tensor.reshape({6, 64}).slice(0, 4, 5)), (std::vector<int>{8, 9}));
  EXPECT_EQ(blocks(tensor.slice(0, 1, 2).slice(1, 0, 1).broadcast({2, 2, 64})),
            (std::vector<int>{6, 7, 6, 7, 6, 7, 6, 7}));
}

TEST(Tensor, QuantisedBlocksCannotBeCutOrTurned) {
  EXPECT_THAT(refusal([] {
                Tensor::zeros(DType::kQ4_0, {2, 16});
              }),
              HasSubstr("multiple of the block of 32"));
  EXPECT_THAT(refusal([] { Tensor::zeros(DType::kQ4_0, {}); }), HasSubstr("not a whole number of blocks"));
  const Tensor tensor = counting_blocks(DType::kQ4_0, {2, 64});
  EXPECT_THAT(refusal([&] { tensor.slice(1, 0, 16); }), HasSubstr("cuts a block of 32"));
  EXPECT_THAT(refusal([&] { tensor.slice(1, 16, 48); }), HasSubstr("cuts a block of 32"));
  EXPECT_THAT(refusal([&] { tensor.transpose(0, 1); }), HasSubstr("cannot move"));
  EXPECT_THAT(refusal([&] { tensor.reshape({8, 16}); }), HasSubstr("multiple of the block"));
  EXPECT_NO_THROW(tensor.transpose(1, 1));
  EXPECT_NO_THROW(tensor.reshape({4, 32}));
}

}  // namespace
}  // namespace butterfly
