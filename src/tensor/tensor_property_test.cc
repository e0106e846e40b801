#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace butterfly {
namespace {

using Index = std::vector<int64_t>;

int64_t product(const Index& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// The index after `at` in row-major order.
void next_index(Index& at, const Index& sizes) {
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (++at[axis] < sizes[axis]) return;
    at[axis] = 0;
  }
}

// The naive model: every element is written down, with its value and the place in memory it came from.
struct Model {
  Index sizes;
  std::vector<int32_t> value;
  std::vector<int64_t> place;

  size_t flat(const Index& index) const {
    int64_t at = 0;
    for (size_t axis = 0; axis < sizes.size(); ++axis) at = at * sizes[axis] + index[axis];
    return static_cast<size_t>(at);
  }
  // A model of the given sizes whose element `index` is ours at from(index).
  template <typename From>
  Model pick(Index new_sizes, From from) const {
    Model result{new_sizes, {}, {}};
    Index at(new_sizes.size());
    for (int64_t n = product(new_sizes); n > 0; --n, next_index(at, new_sizes)) {
      const size_t source = flat(from(at));
      result.value.push_back(value[source]);
      result.place.push_back(place[source]);
    }
    return result;
  }
  bool contiguous() const {
    for (size_t i = 1; i < place.size(); ++i)
      if (place[i] != place[0] + static_cast<int64_t>(i)) return false;
    return true;
  }
};

struct Pair {
  Tensor tensor;
  Model model;
};

Shape shape_of(const Index& sizes) { return Shape(std::span<const int64_t>(sizes)); }

Pair start() {
  const auto sizes = *rc::gen::resize(4, rc::gen::container<Index>(rc::gen::inRange<int64_t>(0, 5)));
  Pair pair;
  pair.model.sizes = sizes;
  pair.tensor = Tensor::zeros(DType::kI32, shape_of(sizes));
  for (int64_t i = 0; i < product(sizes); ++i) {
    pair.tensor.data<int32_t>()[i] = static_cast<int32_t>(1000 + i);
    pair.model.value.push_back(static_cast<int32_t>(1000 + i));
    pair.model.place.push_back(i);
  }
  return pair;
}

// Does what the view does to the model, or nothing when the view must be refused.
std::optional<Model> model_slice(const Model& m, size_t axis, int64_t begin, int64_t end) {
  if (axis >= m.sizes.size() || begin < 0 || begin > end || end > m.sizes[axis]) return std::nullopt;
  Index sizes = m.sizes;
  sizes[axis] = end - begin;
  return m.pick(sizes, [&](Index at) {
    at[axis] += begin;
    return at;
  });
}

std::optional<Model> model_transpose(const Model& m, size_t a, size_t b) {
  if (a >= m.sizes.size() || b >= m.sizes.size()) return std::nullopt;
  Index sizes = m.sizes;
  std::swap(sizes[a], sizes[b]);
  return m.pick(sizes, [&](Index at) {
    std::swap(at[a], at[b]);
    return at;
  });
}

std::optional<Model> model_broadcast(const Model& m, const Index& sizes) {
  if (sizes.size() < m.sizes.size()) return std::nullopt;
  const size_t added = sizes.size() - m.sizes.size();
  for (size_t axis = 0; axis < m.sizes.size(); ++axis)
    if (m.sizes[axis] != 1 && m.sizes[axis] != sizes[added + axis]) return std::nullopt;
  return m.pick(sizes, [&](const Index& at) {
    Index source(at.begin() + static_cast<std::ptrdiff_t>(added), at.end());
    for (size_t axis = 0; axis < source.size(); ++axis)
      if (m.sizes[axis] == 1) source[axis] = 0;
    return source;
  });
}

std::optional<Model> model_reshape(const Model& m, const Index& sizes) {
  if (product(sizes) != product(m.sizes) || !m.contiguous()) return std::nullopt;
  Model result = m;
  result.sizes = sizes;
  return result;
}

// Sizes to reshape to: mostly the same factors in another grouping, so that many attempts succeed.
Index regrouped(const Index& sizes) {
  Index result = sizes;
  if (result.size() >= 2 && *rc::gen::arbitrary<bool>()) {
    const size_t axis = *rc::gen::inRange<size_t>(0, result.size() - 1);
    result[axis] *= result[axis + 1];
    result.erase(result.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
  }
  if (result.size() < kMaxRank && *rc::gen::arbitrary<bool>())
    result.insert(
        result.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(result.size()) + 1),
        1);
  return result;
}

Index stretched(const Index& sizes) {
  Index result = sizes;
  for (int64_t& size : result)
    if (*rc::gen::inRange(0, 3) == 0) size = *rc::gen::inRange<int64_t>(0, 4);
  if (result.size() < kMaxRank && *rc::gen::arbitrary<bool>())
    result.insert(result.begin(), *rc::gen::inRange<int64_t>(0, 3));
  return result;
}

// One random step on both. The tensor must be refused exactly when the model has no answer.
void step(Pair& pair) {
  const auto axis = [&] { return *rc::gen::inRange<size_t>(0, pair.model.sizes.size() + 1); };
  const auto bound = [] { return *rc::gen::inRange<int64_t>(-1, 6); };
  std::optional<Model> model;
  Tensor tensor;
  bool refused = false;
  const auto attempt = [&](auto view) {
    try {
      tensor = view();
    } catch (const Error& error) {
      RC_ASSERT(error.code() == Errc::kInvalidArgument);
      refused = true;
    }
  };
  switch (*rc::gen::inRange(0, 5)) {
    case 0: {
      const size_t a = axis();
      const int64_t begin = bound(), end = bound();
      model = model_slice(pair.model, a, begin, end);
      attempt([&] { return pair.tensor.slice(a, begin, end); });
      break;
    }
    case 1: {
      const size_t a = axis(), b = axis();
      model = model_transpose(pair.model, a, b);
      attempt([&] { return pair.tensor.transpose(a, b); });
      break;
    }
    case 2: {
      const Index sizes = regrouped(pair.model.sizes);
      model = model_reshape(pair.model, sizes);
      attempt([&] { return pair.tensor.reshape(shape_of(sizes)); });
      break;
    }
    case 3: {
      const Index sizes = stretched(pair.model.sizes);
      if (product(sizes) > 4096) return;  // keeps the model small
      model = model_broadcast(pair.model, sizes);
      attempt([&] { return pair.tensor.broadcast(shape_of(sizes)); });
      break;
    }
    default:
      model = pair.model;
      for (size_t i = 0; i < model->place.size(); ++i) model->place[i] = static_cast<int64_t>(i);
      attempt([&] { return pair.tensor.clone(); });
  }
  RC_ASSERT(refused == !model.has_value());
  if (!refused) pair = Pair{tensor, *model};
}

void expect_same(const Pair& pair) {
  const auto& [tensor, model] = pair;
  RC_ASSERT(tensor.shape() == shape_of(model.sizes));
  RC_ASSERT(tensor.contiguous() == model.contiguous());
  const std::byte* const begin = tensor.buffer().data();
  const std::byte* const end = begin + tensor.buffer().size();
  Index at(model.sizes.size());
  for (size_t i = 0; i < model.value.size(); ++i, next_index(at, model.sizes)) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < at.size(); ++axis) offset += at[axis] * tensor.stride(axis);
    const int32_t* const element = tensor.data<int32_t>() + offset;
    const auto* const bytes = reinterpret_cast<const std::byte*>(element);
    RC_ASSERT(bytes >= begin && bytes + sizeof(int32_t) <= end);
    RC_ASSERT(*element == model.value[i]);
  }
}

RC_GTEST_PROP(TensorProperty, ChainsOfViewsAgreeWithANaiveModel, ()) {
  Pair pair = start();
  const int steps = *rc::gen::inRange(0, 12);
  expect_same(pair);
  for (int i = 0; i < steps; ++i) {
    step(pair);
    expect_same(pair);
  }
}

RC_GTEST_PROP(TensorProperty, ConstructionSucceedsExactlyWhenEverythingLiesInside, ()) {
  const DTypeInfo& type = dtype_table()[*rc::gen::inRange<size_t>(0, dtype_table().size())];
  // Small sizes mostly, sometimes ones near every power of two.
  const auto size =
      rc::gen::oneOf(rc::gen::inRange<int64_t>(0, 4),
                     rc::gen::map(rc::gen::inRange(0, 63), [](int bit) { return int64_t{1} << bit; }));
  Index sizes = *rc::gen::resize(5, rc::gen::container<Index>(size));
  if (!sizes.empty() && *rc::gen::arbitrary<bool>() && sizes.back() < 1000) sizes.back() *= type.block_values;
  const size_t bytes = *rc::gen::inRange<size_t>(0, 3000);
  const size_t offset = *rc::gen::oneOf(rc::gen::inRange<size_t>(0, 3010), rc::gen::just(SIZE_MAX));
  const Buffer buffer = Buffer::allocate(bytes);

  __extension__ using Wide = unsigned __int128;
  const Wide limit = Wide{1} << 100;
  Wide count = 1;
  for (const int64_t s : sizes)
    count = count == 0 || s == 0 ? 0 : std::min(limit, count * static_cast<uint64_t>(s));
  const bool whole = !type.quantised() || (!sizes.empty() && sizes.back() % type.block_values == 0);
  const bool inside = whole && offset + count / type.block_values * type.block_bytes <= bytes;
  try {
    const Tensor tensor(buffer, type.dtype, shape_of(sizes), offset);
    RC_ASSERT(inside);
  } catch (const Error& error) {
    RC_ASSERT(error.code() == Errc::kInvalidArgument);
    // Empty shapes whose other sizes are too large to count may be refused too.
    if (inside) RC_ASSERT(count == 0 && std::string(error.what()).find("64 bits") != std::string::npos);
  }
}

}  // namespace
}  // namespace butterfly
