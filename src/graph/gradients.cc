#include "graph/gradients.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "graph/ops.h"

namespace butterfly::graph {
namespace {

// Never an index of a value.
constexpr uint32_t kSeedIndex = UINT32_MAX - 1;

bool same_memory(const Parameter& a, const Parameter& b) {
  return a.value.raw() == b.value.raw() && a.value.count() == b.value.count();
}

std::vector<const Parameter*> trainable_of(const Node& node) {
  std::vector<const Parameter*> found;
  if (node.op->parameters == nullptr) return found;
  for (const Parameter* parameter : node.op->parameters(node))
    if (parameter->trainable) found.push_back(parameter);
  return found;
}

}  // namespace

GradientBuilder::Entry* GradientBuilder::find(const Parameter& parameter) {
  for (Entry& entry : parameters_)
    if (same_memory(*entry.parameter, parameter)) return &entry;
  return nullptr;
}

const GradientBuilder::Entry* GradientBuilder::find(const Parameter& parameter) const {
  return const_cast<GradientBuilder*>(this)->find(parameter);
}

void GradientBuilder::mark(std::span<const ValueId> inputs) {
  wanted_.assign(graph_.values().size(), false);
  of_value_.assign(graph_.values().size(), ValueId{});
  readers_.assign(graph_.values().size(), 0);
  for (ValueId input : inputs) wanted_[input.index] = true;
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    for (ValueId input : node.inputs) ++readers_[input.index];
    const auto own = trainable_of(node);
    for (const Parameter* parameter : own)
      if (find(*parameter) == nullptr) parameters_.push_back({parameter, i});
    const bool reached = !own.empty() || std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      return static_cast<bool>(wanted_[v.index]);
    });
    for (ValueId output : node.outputs)
      if (reached) wanted_[output.index] = true;
  }
}

void GradientBuilder::expect_root(const Node& node, ValueId output) const {
  if (of(output) != seed_)
    fail(Errc::kUnsupported, "[{}] {}: its gradient exists only where it is the loss itself", node.op->name,
         node.name);
}

void GradientBuilder::add(ValueId input, ValueId gradient) {
  if (!wants(input)) return;
  ValueId& sum = of_value_[input.index];
  sum = sum.valid() ? graph::add(graph_, sum, gradient, graph_.values()[input.index].name + ".grad_sum")
                    : gradient;
}

void GradientBuilder::add(const Parameter& parameter, ValueId gradient) {
  const ValueId sum = sum_of(parameter);
  replace(parameter,
          sum.valid() ? graph::add(graph_, sum, gradient, parameter.name + ".grad_sum") : gradient);
}

ValueId GradientBuilder::once(ValueId value, FunctionRef<ValueId()> make) {
  auto [it, fresh] = once_.try_emplace(value.index);
  if (fresh) it->second = make();
  return it->second;
}

ValueId GradientBuilder::sum_of(const Parameter& parameter) const {
  const Entry* entry = find(parameter);
  BF_CHECK(entry != nullptr) << parameter.name << " is no parameter of the graph";
  return entry->sum;
}

void GradientBuilder::replace(const Parameter& parameter, ValueId sum) {
  Entry* entry = find(parameter);
  BF_CHECK(entry != nullptr) << parameter.name << " is no parameter of the graph";
  entry->sum = sum;
  graph_.set_memory_class(sum, MemoryClass::kGradients);
}

void GradientBuilder::run_backward(const SeededGradient& seed, const GradientOptions& options) {
  of_value_[seed.value.index] = seed.gradient;
  for (size_t i = graph_.nodes().size(); i-- > 0;) {
    const Node node = graph_.nodes()[i];  // a copy: nodes are added below
    const auto has = [&](ValueId v) { return of_value_[v.index].valid() && wanted_[v.index]; };
    if (std::any_of(node.outputs.begin(), node.outputs.end(), has)) {
      if (node.op->backward == nullptr)
        fail(Errc::kUnsupported, "[{}] {}: this operation has no gradient", node.op->name, node.name);
      node.op->backward(*this, node);
    }
    for (const Entry& entry : parameters_)
      if (entry.first_reader == i && entry.sum.valid() && options.finished)
        options.finished(graph_, {entry.parameter, entry.sum});
  }
}

Gradients GradientBuilder::build(const SeededGradient& seed, const GradientOptions& options) {
  mark(options.inputs);
  if (!wants(seed.value)) fail(Errc::kInvalidArgument, "the loss depends on nothing that can be trained");
  run_backward(seed, options);
  Gradients result;
  for (const Entry& entry : parameters_)
    if (entry.sum.valid()) result.parameters.push_back({entry.parameter, entry.sum});
  for (ValueId input : options.inputs) result.inputs.push_back(of(input));
  return result;
}

Gradients gradients(Graph& graph, ValueId loss, const GradientOptions& options) {
  const ValueType& type = graph.type(loss);
  BF_CHECK(type.elem == Elem::kF32 && type.rows() * type.cols() == 1) << "a loss is one number";
  GradientBuilder builder(graph);
  builder.seed_ = {kSeedIndex};
  return builder.build({loss, builder.seed_}, options);
}

Gradients gradients(Graph& graph, const SeededGradient& seed, const GradientOptions& options) {
  const ValueType &type = graph.type(seed.value), &given = graph.type(seed.gradient);
  BF_CHECK(type.elem == Elem::kF32 && given.elem == Elem::kF32 && type.bytes() == given.bytes())
      << "a gradient has the size of its value";
  return GradientBuilder(graph).build(seed, options);
}

}  // namespace butterfly::graph
