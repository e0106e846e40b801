// Reverse-mode gradients as nodes of the same graph, so that one memory plan covers both directions.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "graph/graph.h"
#include "graph/parameter.h"

namespace butterfly::graph {

// The gradient of a trainable parameter: a value of as many floats as the parameter has.
struct ParameterGradient {
  const Parameter* parameter;
  ValueId value;
};

struct Gradients {
  std::vector<ParameterGradient> parameters;  // in the order in which the forward pass first reads them
  std::vector<ValueId> inputs;                // as asked for; invalid where the loss does not depend on it
};

// The gradient of a value that comes from elsewhere: of the output of a stage, say, from the stage behind it.
struct SeededGradient {
  ValueId value;
  ValueId gradient;  // as many floats
};

struct GradientOptions {
  std::vector<ValueId> inputs = {};  // values whose gradients are wanted besides those of the parameters
  // Called as soon as a parameter's gradient is complete and no later node reads the parameter; what it adds
  // to the graph (an update of the weights, say) runs at that place, so the gradient's memory is free after
  // it.
  std::function<void(Graph& graph, const ParameterGradient& gradient)> finished = {};
};

// Appends the backward pass of `loss` [1] to the graph. Parameters are those marked trainable that the loss
// depends on; those with the same memory (a tied head) are one, under the name that is read first. Throws
// Error kUnsupported naming the op if one on the way has no gradient.
Gradients gradients(Graph& graph, ValueId loss, const GradientOptions& options = {});
// The same for a graph whose loss is elsewhere: from the gradient of one of its values, usually an input that
// is filled when the forward pass is over. With the gradient that the whole graph would have there, all
// others have its bits.
Gradients gradients(Graph& graph, const SeededGradient& seed, const GradientOptions& options = {});

// What an op's backward function works with. Gradients of one value are summed in the order in which they
// come. Borrows the graph. One thread.
class GradientBuilder {
 public:
  explicit GradientBuilder(Graph& graph) : graph_(graph) {}
  Graph& graph() { return graph_; }

  // The gradient of an output; invalid: the loss does not depend on it.
  ValueId of(ValueId output) const { return of_value_[output.index]; }
  // Throws Error kUnsupported unless the loss is this output itself (or a sum with it): losses compute their
  // gradients on the way forward, where they have what it takes.
  void expect_root(const Node& node, ValueId output) const;

  // Whether a gradient with regard to this input leads to anything.
  bool wants(ValueId input) const { return wanted_[input.index]; }
  bool wants(const Parameter& parameter) const { return parameter.trainable; }
  void add(ValueId input, ValueId gradient);
  void add(const Parameter& parameter, ValueId gradient);
  // Replaces the sum so far, of(input), by one that holds it: for ops that add to it in place.
  void set(ValueId input, ValueId sum) { of_value_[input.index] = sum; }

  // Whether one input of one op is all that reads this value in the forward pass.
  bool read_once(ValueId value) const { return readers_[value.index] == 1; }
  // A relu made this value, and whoever reads it has already set to 0 what the relu would: see max_pool2d.
  void set_past_relu(ValueId value) { past_relu_.insert(value.index); }
  bool past_relu(ValueId value) const { return past_relu_.contains(value.index); }

  // What make() adds for this value of the forward pass, added the first time only.
  ValueId once(ValueId value, FunctionRef<ValueId()> make);

  // The sum so far, invalid if there is none, and its replacement: for ops that add to it in place.
  ValueId sum_of(const Parameter& parameter) const;
  void replace(const Parameter& parameter, ValueId sum);

 private:
  friend Gradients gradients(Graph& graph, ValueId loss, const GradientOptions& options);
  friend Gradients gradients(Graph& graph, const SeededGradient& seed, const GradientOptions& options);

  // Parameters with the same memory are one.
  struct Entry {
    const Parameter* parameter;
    size_t first_reader;  // node
    ValueId sum = {};
  };
  Entry* find(const Parameter& parameter);
  const Entry* find(const Parameter& parameter) const;
  // Which values lie on a way from something trainable.
  void mark(std::span<const ValueId> inputs);
  void run_backward(const SeededGradient& seed, const GradientOptions& options);
  Gradients build(const SeededGradient& seed, const GradientOptions& options);

  Graph& graph_;
  std::vector<bool> wanted_;          // by value of the forward pass
  std::vector<ValueId> of_value_;     // the same
  std::vector<uint32_t> readers_;     // the same
  std::set<uint32_t> past_relu_;      // values of the forward pass
  std::map<uint32_t, ValueId> once_;  // by value of the forward pass
  std::vector<Entry> parameters_;     // by first reader
  ValueId seed_;                      // stands for the gradient 1 of the loss; no node makes it
};

}  // namespace butterfly::graph
