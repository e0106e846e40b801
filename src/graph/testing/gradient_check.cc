#include "graph/testing/gradient_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "graph/executor.h"

namespace butterfly::graph::testing {

std::vector<float> GradientCheck::random(size_t count, float deviation, float mean) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = mean + deviation * random_normal(seed_, drawn_, i);
  ++drawn_;
  return values;
}

Parameter& GradientCheck::parameter(Shape shape, float deviation, float mean) {
  Tensor value = Tensor::zeros(DType::kF32, shape);
  const auto values = random(static_cast<size_t>(shape.count()), deviation, mean);
  std::copy(values.begin(), values.end(), value.data<float>());
  parameters_.push_back(
      {.name = "p" + std::to_string(parameters_.size()), .value = value, .trainable = true});
  return parameters_.back();
}

size_t GradientCheck::input(Shape shape, float deviation, float mean) {
  inputs_.push_back({Elem::kF32, shape, random(static_cast<size_t>(shape.count()), deviation, mean), {}});
  return inputs_.size() - 1;
}

size_t GradientCheck::ids(std::vector<int32_t> values) {
  inputs_.push_back({Elem::kI32, {static_cast<int64_t>(values.size())}, {}, std::move(values)});
  return inputs_.size() - 1;
}

// One built graph: forward only, or with gradients. With `loss` the built value is the loss, else a loss is
// put behind it: the squared distance to `target`, whose gradient is 2 (y - target).
struct GradientCheck::Run {
  Run(GradientCheck& check, const Build& build, bool loss, bool backward, size_t threads)
      : owner(check), pool(threads) {
    Graph g;
    GradientOptions options;
    for (size_t i = 0; i < check.inputs_.size(); ++i) {
      ids.push_back(g.input("x" + std::to_string(i), {check.inputs_[i].elem, check.inputs_[i].shape}));
      if (check.inputs_[i].elem == Elem::kF32) options.inputs.push_back(ids.back());
    }
    y = build(g, ids);
    g.mark_output(y);
    if (backward) {
      ValueId root = y;
      if (!loss) {
        target = g.input("target", g.type(y));
        factor = g.input("factor", {Elem::kF32, {1}});
        root = mse(g, y, target, factor, "loss");
      }
      result = gradients(g, root, options);
      for (const auto& gradient : result.parameters) g.mark_output(gradient.value);
      for (ValueId gradient : result.inputs)
        if (gradient.valid()) g.mark_output(gradient);
    }
    executor = std::make_unique<Executor>(std::move(g), arena, pool);
  }

  std::vector<float> run(const std::vector<float>& target_values = {}) {
    for (size_t i = 0; i < ids.size(); ++i) {
      const Input& from = owner.inputs_[i];
      const void* data = from.elem == Elem::kF32 ? static_cast<const void*>(from.floats.data())
                                                 : static_cast<const void*>(from.ints.data());
      std::memcpy(executor->input(ids[i]), data, executor->graph().type(ids[i]).bytes());
    }
    if (target.valid()) {
      std::memcpy(executor->input(target), target_values.data(), target_values.size() * sizeof(float));
      *reinterpret_cast<float*>(executor->input(factor)) = 1;
    }
    executor->run(nullptr);
    return values(y);
  }

  std::vector<float> values(ValueId value) const {
    const ValueType& type = executor->graph().type(value);
    const float* from = executor->output(value);
    return {from, from + type.rows() * type.cols()};
  }

  GradientCheck& owner;
  ThreadPool pool;
  Arena arena;
  std::vector<ValueId> ids;
  ValueId y, target, factor;
  Gradients result;
  std::unique_ptr<Executor> executor;
};

void GradientCheck::compare(const Build& build, bool loss, float step, double tolerance) {
  Run forward(*this, build, loss, false, 1);
  const std::vector<float> base = forward.run();
  std::vector<float> slopes = random(base.size(), 1, 0), target(base.size());
  if (loss) slopes.assign(1, 1.0f);
  for (size_t i = 0; i < base.size(); ++i) target[i] = base[i] - slopes[i] / 2;
  Run both(*this, build, loss, true, 1);
  ASSERT_EQ(both.run(target), base) << "the forward pass changed when the backward pass was added";

  const auto result = [&] {
    const std::vector<float> y = forward.run();
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(slopes[i]) * y[i];
    return sum;
  };
  const auto check_all = [&](float* values, size_t count, const std::vector<float>& gradient,
                             const std::string& name) {
    ASSERT_EQ(gradient.size(), count) << name;
    for (size_t i = 0; i < count; ++i) {
      const float at = values[i];
      const auto moved = [&](float by) {
        values[i] = at + by;
        const double sum = result();
        values[i] = at;
        return sum;
      };
      const double slope =
          (8 * (moved(step) - moved(-step)) - (moved(2 * step) - moved(-2 * step))) / (12.0 * step);
      ASSERT_NEAR(gradient[i], slope, tolerance * std::max(1.0, std::fabs(slope))) << name << "[" << i << "]";
    }
  };
  size_t floats = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].elem != Elem::kF32) continue;
    const ValueId gradient = both.result.inputs[floats++];
    if (gradient.valid())
      check_all(inputs_[i].floats.data(), inputs_[i].floats.size(), both.values(gradient),
                "input " + std::to_string(i));
  }
  for (Parameter& parameter : parameters_) {
    const ParameterGradient* found = nullptr;
    for (const auto& gradient : both.result.parameters)
      if (gradient.parameter->value.raw() == parameter.value.raw()) found = &gradient;
    ASSERT_NE(found, nullptr) << parameter.name << " got no gradient";
    check_all(parameter.value.data<float>(), static_cast<size_t>(parameter.value.count()),
              both.values(found->value), parameter.name);
  }
}

void GradientCheck::check(const Build& build, float step, double tolerance) {
  compare(build, false, step, tolerance);
}

void GradientCheck::check_loss(const Build& build, float step, double tolerance) {
  compare(build, true, step, tolerance);
}

std::vector<float> GradientCheck::gradients_of(const Build& build, size_t threads) {
  Run run(*this, build, false, true, threads);
  const ValueType& type = run.executor->graph().type(run.y);
  run.run(std::vector<float>(type.rows() * type.cols(), 0.25f));
  std::vector<float> all;
  const auto append = [&](ValueId value) {
    const auto values = run.values(value);
    all.insert(all.end(), values.begin(), values.end());
  };
  for (const auto& gradient : run.result.parameters) append(gradient.value);
  for (ValueId gradient : run.result.inputs)
    if (gradient.valid()) append(gradient);
  return all;
}

}  // namespace butterfly::graph::testing
