// Cross-entropy as a loss: of logits, and of logits that exist only in pieces.
//
// Losses know their own gradient, so both ops leave it beside the loss: logits are turned into gradients in
// place, and for the second op neither exists for more than a chunk of rows.
#include <algorithm>
#include <cstring>

#include "graph/head_loss.h"
#include "graph/ops/grad_ops.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/matmul_dx.h"
#include "kernels/matmul/matmul.h"
#include "kernels/norm/norm_backward.h"
#include "kernels/rows/cross_entropy.h"
#include "kernels/rows/reduce.h"
#include "kernels/rows/softmax.h"

namespace butterfly::graph {
namespace {

ValueType vector_type(size_t count, Elem elem = Elem::kF32) { return {elem, {static_cast<int64_t>(count)}}; }

void expect_targets(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_elem(g, node, node.inputs[1], Elem::kI32);
  expect_equal(node, "targets", g.type(node.inputs[0]).rows(), g.type(node.inputs[1]).rows());
  expect_elem(g, node, node.inputs[2], Elem::kF32);
}

// Rows of logits become rows of gradients. Rows without a target become zeros and count nothing.
void loss_rows(float* logits, size_t rows, size_t cols, const int32_t* targets, float factor, float* losses,
               int32_t* correct, const RunContext& run) {
  run.for_rows(rows, cols, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      BF_CHECK(targets[row] < static_cast<int32_t>(cols)) << "target " << targets[row] << " of " << cols;
      correct[row] = targets[row] >= 0 &&
                     kernels::argmax(logits + row * cols, cols) == static_cast<size_t>(targets[row]);
    }
  });
  kernels::cross_entropy_backward(logits, rows, cols, targets, factor, losses, run.pool());
}

// Outputs: loss, correct rows, losses of rows, gradient.
std::vector<ValueType> infer(const Graph& g, const Node& node) {
  expect_targets(g, node);
  const ValueType& x = g.type(node.inputs[0]);
  return {vector_type(1), vector_type(x.rows(), Elem::kI32), vector_type(x.rows()), x};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& x = g.type(node.inputs[0]);
  return {.flops = 14 * x.rows() * x.cols(), .activation_bytes = value_bytes(g, node)};
}

void forward(const Node& node, const RunContext& run) {
  const ValueType& type = run.type(node.inputs[0]);
  const float factor = run.f32(node.inputs[2])[0];
  float* dx = run.f32(node.outputs[3]);
  float* losses = run.f32(node.outputs[2]);
  std::memcpy(dx, run.f32(node.inputs[0]), type.bytes());
  loss_rows(dx, type.rows(), type.cols(), run.i32(node.inputs[1]), factor, losses, run.i32(node.outputs[1]),
            run);
  run.f32(node.outputs[0])[0] = kernels::sum(losses, type.rows()) * factor;
}

void backward(GradientBuilder& b, const Node& node) {
  b.expect_root(node, node.outputs[0]);
  b.add(node.inputs[0], node.outputs[3]);
}

struct HeadAttrs {
  const Parameter* weight;
  bool with_gradients;
  float cap;  // of the logits; 0: none
  bool has_slopes;
  const Parameter* b = nullptr;  // of an adapter, whose rows are the last input; null: none
  float scale = 1;               // of what it adds
  float product_scale = 1;       // of the product with the weight
  const Parameter* bias = nullptr;
  size_t rank() const { return b->cols(); }
};

// Logits at once: a few dozen megabytes, and enough rows for the products.
constexpr size_t kChunkBytes = size_t{32} << 20;

size_t chunk_rows(size_t rows, size_t vocab) {
  const size_t most = std::max<size_t>(16, kChunkBytes / (vocab * sizeof(float)));
  const size_t chunks = (rows + most - 1) / most;
  const size_t even = (rows + chunks - 1) / chunks;
  return std::min(rows, (even + 15) / 16 * 16);
}

// Outputs: loss, correct rows, losses of rows, a chunk of logits, with an adapter the same chunk of what it
// adds; with gradients dx, the same chunk once more if logits are capped, dw and db if they are trained; of
// an adapter those of its rows and of B.
struct HeadOutputs {
  explicit HeadOutputs(const HeadAttrs& attrs) {
    size_t next = 4;
    if (attrs.b != nullptr) added = next++;
    if (!attrs.with_gradients) return;
    dx = next++;
    if (attrs.cap > 0) capped = next++;
    if (attrs.weight->trainable) dw = next++;
    if (attrs.bias != nullptr && attrs.bias->trainable) dbias = next++;
    if (attrs.b == nullptr) return;
    dlow = next++;
    if (attrs.b->trainable) db = next++;
  }
  size_t added = 0, dx = 0, capped = 0, dw = 0, dbias = 0, dlow = 0, db = 0;  // 0: there is none
};

void expect_head(const Graph& g, const Node& node, const Parameter& weight) {
  expect_elem(g, node, node.inputs[1], Elem::kI32);
  expect_equal(node, "targets", g.type(node.inputs[0]).rows(), g.type(node.inputs[1]).rows());
  expect_elem(g, node, node.inputs[2], Elem::kF32);
  if (node.inputs.size() > 3)
    expect_equal(node, "slopes", g.type(node.inputs[0]).rows(), g.type(node.inputs[3]).rows());
  expect_elem(g, node, node.inputs[0], weight.packed ? elem_of(weight.packed.act()) : Elem::kF32);
  if (!weight.packed && (weight.value.dtype() != DType::kF32 || weight.value.rank() != 2))
    fail(Errc::kInvalidArgument, "[{}] {}: expected a matrix of type F32, found {} {}", node.op->name,
         weight.name, dtype_name(weight.value.dtype()), weight.value.shape().to_string());
  expect_equal(node, "columns", weight.cols(), g.type(node.inputs[0]).cols());
  if (const Parameter* bias = node.attrs<HeadAttrs>().bias)
    expect_equal(node, "biases", weight.rows(), static_cast<size_t>(bias->value.count()));
}

std::vector<ValueType> infer_head(const Graph& g, const Node& node) {
  const HeadAttrs& attrs = node.attrs<HeadAttrs>();
  expect_head(g, node, *attrs.weight);
  const ValueType& x = g.type(node.inputs[0]);
  const size_t vocab = attrs.weight->rows();
  const ValueType chunk = floats(chunk_rows(x.rows(), vocab), vocab);
  std::vector<ValueType> outputs = {vector_type(1), vector_type(x.rows(), Elem::kI32), vector_type(x.rows()),
                                    chunk};
  const HeadOutputs has(attrs);
  if (attrs.b != nullptr) {
    expect_equal(node, "rows of B", vocab, attrs.b->rows());
    expect_equal(node, "columns of A x", attrs.rank(), g.type(node.inputs.back()).cols());
    outputs.push_back(chunk);
  }
  if (has.dx > 0) outputs.push_back(floats(x.rows(), x.cols()));
  if (has.capped > 0) outputs.push_back(chunk);
  if (has.dw > 0) outputs.push_back(floats(vocab, x.cols()));
  if (has.dbias > 0) outputs.push_back({Elem::kF32, attrs.bias->value.shape()});
  if (has.dlow > 0) outputs.push_back(floats(x.rows(), attrs.rank()));
  if (has.db > 0) outputs.push_back(floats(vocab, attrs.rank()));
  return outputs;
}

// One product forward, one each to dx and dw.
Cost cost_head(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& x = g.type(node.inputs[0]);
  const HeadAttrs& attrs = node.attrs<HeadAttrs>();
  const Parameter& weight = *attrs.weight;
  const HeadOutputs has(attrs);
  const size_t products = 1 + (has.dx > 0) + (has.dw > 0);
  const size_t bytes = weight.packed ? weight.packed.bytes() : weight.value.bytes();
  return {.flops = products * 2 * x.rows() * x.cols() * weight.rows() + 14 * x.rows() * weight.rows(),
          .weight_bytes = std::min<size_t>(products, 2) * bytes,
          .activation_bytes = value_bytes(g, node)};
}

// logits = x W^T for a chunk of rows.
void head_logits(const Parameter& weight, const std::byte* x, size_t row_bytes, size_t rows, float* logits,
                 ThreadPool& pool) {
  const size_t vocab = weight.rows(), dim = weight.cols();
  if (weight.packed) {
    pool.parallel_for(weight.packed.panels(), 1, [&](size_t begin, size_t end) {
      kernels::matmul(weight.packed, x, row_bytes, rows, logits, vocab, begin * kernels::kPanelRows,
                      std::min(end * kernels::kPanelRows, vocab));
    });
    return;
  }
  kernels::gemm({.m = rows,
                 .n = vocab,
                 .k = dim,
                 .a = {reinterpret_cast<const float*>(x), dim},
                 .b = {weight.value.data<float>(), dim, true},
                 .c = logits,
                 .c_stride = vocab},
                pool);
}

// dx = dlogits W.
void head_dx(const Parameter& weight, const float* dlogits, size_t rows, float* dx, ThreadPool& pool) {
  const size_t vocab = weight.rows(), dim = weight.cols();
  if (weight.packed) return kernels::matmul_dx(weight.packed, dlogits, vocab, rows, dx, dim, false, pool);
  kernels::gemm({.m = rows,
                 .n = dim,
                 .k = vocab,
                 .a = {dlogits, vocab},
                 .b = {weight.value.data<float>(), dim},
                 .c = dx,
                 .c_stride = dim},
                pool);
}

// What an adapter adds to a chunk of logits, rounded as where the model runs.
void add_adapter(const HeadAttrs& attrs, const float* low, size_t rows, float* added, float* logits,
                 const RunContext& run) {
  const size_t vocab = attrs.weight->rows(), rank = attrs.rank();
  kernels::gemm({.m = rows,
                 .n = vocab,
                 .k = rank,
                 .a = {low, rank},
                 .b = {attrs.b->value.data<float>(), rank, true},
                 .c = added,
                 .c_stride = vocab},
                run.pool());
  run.for_rows(rows, vocab, [&](size_t begin, size_t end) {
    kernels::add_scaled(logits + begin * vocab, added + begin * vocab, attrs.scale, logits + begin * vocab,
                        (end - begin) * vocab);
  });
}

// The gradients of the adapter's rows, and B's, to which those of the chunk are added.
void adapter_gradients(const HeadAttrs& attrs, const float* dlogits, const float* low, size_t rows,
                       float* dlow, float* db, bool first, ThreadPool& pool) {
  const size_t vocab = attrs.weight->rows(), rank = attrs.rank();
  kernels::gemm({.m = rows,
                 .n = rank,
                 .k = vocab,
                 .a = {dlogits, vocab},
                 .b = {attrs.b->value.data<float>(), rank},
                 .c = dlow,
                 .c_stride = rank},
                pool);
  kernels::scale(dlow, attrs.scale, dlow, rows * rank);
  if (db != nullptr)
    kernels::gemm({.m = vocab,
                   .n = rank,
                   .k = rows,
                   .a = {dlogits, vocab, true},
                   .b = {low, rank},
                   .c = db,
                   .c_stride = rank,
                   .accumulate = !first},
                  pool);
}

void scale_all(float* values, float factor, size_t rows, size_t cols, const RunContext& run) {
  run.for_rows(rows, cols, [&](size_t begin, size_t end) {
    kernels::scale(values + begin * cols, factor, values + begin * cols, (end - begin) * cols);
  });
}

void add_bias(const Parameter& bias, float* logits, size_t rows, const RunContext& run) {
  const auto cols = static_cast<size_t>(bias.value.count());
  run.for_rows(rows, cols, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row)
      kernels::add(logits + row * cols, bias.value.data<float>(), logits + row * cols, cols);
  });
}

// Rows that count more or less, or the other way.
void scale_rows(float* gradients, size_t rows, size_t cols, const float* slopes, float* losses,
                const RunContext& run) {
  run.for_rows(rows, cols, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      kernels::scale(gradients + row * cols, slopes[row], gradients + row * cols, cols);
      losses[row] *= slopes[row];
    }
  });
}

void forward_head(const Node& node, const RunContext& run) {
  const HeadAttrs& attrs = node.attrs<HeadAttrs>();
  const HeadOutputs has(attrs);
  const ValueType& type = run.type(node.inputs[0]);
  const size_t dim = type.cols(), vocab = attrs.weight->rows();
  const size_t chunk = run.type(node.outputs[3]).rows();
  const float factor = run.f32(node.inputs[2])[0];
  float* losses = run.f32(node.outputs[2]);
  float* logits = run.f32(node.outputs[3]);
  const float* slopes = attrs.has_slopes ? run.f32(node.inputs[3]) : nullptr;
  const float* low = attrs.b != nullptr ? run.f32(node.inputs.back()) : nullptr;
  float* db = has.db > 0 ? run.f32(node.outputs[has.db]) : nullptr;
  float* capped = has.capped > 0 ? run.f32(node.outputs[has.capped]) : nullptr;
  for (size_t row = 0; row < type.rows(); row += chunk) {
    const size_t rows = std::min(chunk, type.rows() - row);
    const std::byte* x = run.raw(node.inputs[0]) + row * type.row_bytes();
    head_logits(*attrs.weight, x, type.row_bytes(), rows, logits, run.pool());
    if (attrs.product_scale != 1) scale_all(logits, attrs.product_scale, rows, vocab, run);
    const float* low_rows = attrs.b != nullptr ? low + row * attrs.rank() : nullptr;
    if (attrs.b != nullptr) add_adapter(attrs, low_rows, rows, run.f32(node.outputs[has.added]), logits, run);
    if (attrs.bias != nullptr) add_bias(*attrs.bias, logits, rows, run);
    const auto each_row = [&](auto&& fn) {
      run.for_rows(rows, vocab, [&](size_t begin, size_t end) { fn(begin * vocab, (end - begin) * vocab); });
    };
    if (attrs.cap > 0)
      each_row([&](size_t at, size_t count) {
        kernels::soft_cap(logits + at, attrs.cap, count);
        if (capped != nullptr) std::memcpy(capped + at, logits + at, count * sizeof(float));
      });
    loss_rows(logits, rows, vocab, run.i32(node.inputs[1]) + row, factor, losses + row,
              run.i32(node.outputs[1]) + row, run);
    if (slopes != nullptr) scale_rows(logits, rows, vocab, slopes + row, losses + row, run);
    if (!attrs.with_gradients) continue;
    if (attrs.cap > 0)
      each_row([&](size_t at, size_t count) {
        soft_cap_backward(capped + at, logits + at, attrs.cap, logits + at, count);
      });
    if (has.dbias > 0)
      kernels::column_sums(logits, rows, vocab, vocab, row > 0, run.f32(node.outputs[has.dbias]), run.pool());
    if (has.dlow > 0)
      adapter_gradients(attrs, logits, low_rows, rows, run.f32(node.outputs[has.dlow]) + row * attrs.rank(),
                        db, row == 0, run.pool());
    if (attrs.product_scale != 1) scale_all(logits, attrs.product_scale, rows, vocab, run);
    head_dx(*attrs.weight, logits, rows, run.f32(node.outputs[has.dx]) + row * dim, run.pool());
    if (has.dw > 0)
      kernels::gemm({.m = vocab,
                     .n = dim,
                     .k = rows,
                     .a = {logits, vocab, true},
                     .b = {reinterpret_cast<const float*>(x), dim},
                     .c = run.f32(node.outputs[has.dw]),
                     .c_stride = dim,
                     .accumulate = row > 0},
                    run.pool());
  }
  if (db != nullptr) kernels::scale(db, attrs.scale, db, vocab * attrs.rank());
  run.f32(node.outputs[0])[0] = kernels::sum(losses, type.rows()) * factor;
}

std::vector<const Parameter*> head_weight(const Node& node) {
  const HeadAttrs& attrs = node.attrs<HeadAttrs>();
  std::vector<const Parameter*> all = {attrs.weight};
  for (const Parameter* more : {attrs.bias, attrs.b})
    if (more != nullptr) all.push_back(more);
  return all;
}

void backward_head(GradientBuilder& b, const Node& node) {
  const HeadAttrs& attrs = node.attrs<HeadAttrs>();
  b.expect_root(node, node.outputs[0]);
  if (!attrs.with_gradients)
    fail(Errc::kUnsupported, "[{}] {}: built for evaluation, without gradients", node.op->name, node.name);
  const HeadOutputs has(attrs);
  b.add(node.inputs[0], node.outputs[has.dx]);
  if (has.dw > 0) b.add(*attrs.weight, node.outputs[has.dw]);
  if (has.dbias > 0) b.add(*attrs.bias, node.outputs[has.dbias]);
  if (has.dlow > 0) b.add(node.inputs.back(), node.outputs[has.dlow]);
  if (has.db > 0) b.add(*attrs.b, node.outputs[has.db]);
}

Loss loss_of(const std::vector<ValueId>& outputs) { return {outputs[0], outputs[1], outputs[2]}; }

}  // namespace

extern const OpType kCrossEntropyOp;
extern const OpType kLinearCrossEntropyOp;
const OpType kCrossEntropyOp{"cross_entropy", infer, cost, nullptr, -1, forward, nullptr, backward};
const OpType kLinearCrossEntropyOp{"linear_cross_entropy", infer_head,  cost_head,    nullptr, -1,
                                   forward_head,           head_weight, backward_head};

Loss cross_entropy(Graph& g, ValueId logits, ValueId targets, ValueId factor, std::string name) {
  return loss_of(g.add(kCrossEntropyOp, {logits, targets, factor}, nullptr, std::move(name)));
}

Loss linear_cross_entropy(Graph& g, ValueId x, const Parameter& weight, ValueId targets, ValueId factor,
                          bool with_gradients, std::string name) {
  return head_loss(g, x, weight, targets, factor, {.with_gradients = with_gradients}, std::move(name));
}

Loss head_loss(Graph& g, ValueId x, const Parameter& weight, ValueId targets, ValueId factor,
               const HeadLoss& options, std::string name) {
  std::vector<ValueId> inputs = {x, targets, factor};
  if (options.slopes.valid()) inputs.push_back(options.slopes);
  if (options.b != nullptr) inputs.push_back(options.low);
  const HeadAttrs attrs{&weight,   options.with_gradients, options.cap,           options.slopes.valid(),
                        options.b, options.scale,          options.product_scale, options.bias};
  return loss_of(
      g.add(kLinearCrossEntropyOp, std::move(inputs), std::make_shared<HeadAttrs>(attrs), std::move(name)));
}

}  // namespace butterfly::graph
