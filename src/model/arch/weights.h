// Weights on their way from a model file into layers: shapes checked, matrices packed.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "graph/parameter.h"
#include "model/adapter/adapter.h"
#include "model/arch/adapter_sites.h"
#include "model/arch/group_share.h"
#include "model/formats/model_file.h"
#include "nn/linear.h"

namespace butterfly::model {

// Bytes of tensors read so far, and in all. Called from the loading thread.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

// The packed matrices of one file, by tensor and first row: what models over the same file can share. Layers
// keep what they use, so it may go at any time. One loader at a time may have it.
using PackedWeights = std::map<std::string, kernels::PackedMatrix>;

// Reads tensors by name. Every read is guarded, so a file that is cut off while loading gives an Error, not a
// crash. Borrows the file and the pool. One thread; packing uses the pool.
class WeightLoader {
 public:
  // Layers take up the adapters' matrices, in order. Borrows all of them.
  WeightLoader(const ModelFile& file, ThreadPool& pool, LoadProgress progress = {},
               std::span<const Adapter> adapters = {});

  // Only tensors of which this says true will be asked for: progress is measured by their bytes.
  using Needs = std::function<bool(const std::string& tensor)>;
  void expect_only(const Needs& needs);
  // The same where they are known: a member of a group asks for parts of tensors.
  void expect_bytes(uint64_t bytes) { total_bytes_ = bytes; }
  uint64_t read_bytes() const { return done_bytes_; }  // of the file, by all that was asked for

  // From now on matrices get their sizes and memory nobody touches, but no values: what a planner needs.
  void leave_values() { with_values_ = false; }

  // From now on matrices that are in `packed` are taken from there, and others added to it. Borrowed.
  void share(PackedWeights& packed) { shared_ = &packed; }

  // From now on layers that take adapters get a number, and are added to this list: rows may then name
  // adapters (adapter_layers()). Borrowed. For a whole model that does not learn.
  void list_sites(std::vector<AdapterSite>& sites) { sites_ = &sites; }

  // From now on layers get this member's part of what the group shares. Who reads a layer asks for it:
  // see group().
  void load_share(const GroupShare& group) { group_ = group; }
  const GroupShare& group() const { return group_; }

  // From now on weights are plain floats that learn, and one memory under one name: what a tied head and the
  // embedding read, and what masters() lists. Floats in writable memory are taken as they are.
  void keep_for_training() { training_ = true; }
  // With it: throws Error kUnsupported for what has no way to learn, in the plural: "experts". Adapters
  // beside it may.
  void refuse_training(std::string_view what) const;
  // With it: the embedding's table does not learn here. Whoever has the head that shares it teaches it.
  void freeze_embedding() { embedding_frozen_ = true; }
  // The tensors that were asked for, by name, whole.
  const std::map<std::string, Tensor>& masters() const { return masters_; }

  bool has(const std::string& name) const { return file_.has(name); }
  // [out, in], packed for products; the file's pages are released afterwards.
  graph::Parameter matrix(const std::string& name, size_t out, size_t in);
  // `stem`.weight [out, in], `stem`.bias where the file has it, and what the adapters add.
  nn::Linear linear(const std::string& stem, size_t out, size_t in);
  // Columns `here` of it, the whole bias, and these columns of the adapters' A. None: a layer without
  // weights.
  nn::Linear linear_columns(const std::string& stem, size_t out, size_t in, MemberRange here);
  // Rows `here` of the output layer: "output", or where the file has none the embedding's matrix; adapters
  // are those of "output" in both cases.
  nn::Linear head(size_t vocab, size_t dim, MemberRange here);
  // The same for a matrix that holds several below one another: one layer for each, in order, of which only
  // some rows may be wanted.
  struct FusedPart {
    size_t out;        // rows in the file
    MemberRange here;  // of those; none: an empty layer
  };
  std::vector<nn::Linear> fused_linear(const std::string& stem, std::span<const FusedPart> parts, size_t in);
  std::vector<nn::Linear> fused_linear(const std::string& stem, std::initializer_list<FusedPart> parts,
                                       size_t in) {
    return fused_linear(stem, std::span<const FusedPart>(parts.begin(), parts.size()), in);
  }
  // One layer of these rows of `stem`.weight [out, in], one range behind the other; empty without any.
  nn::Linear gathered_linear(const std::string& stem, size_t out, size_t in,
                             std::span<const MemberRange> ranges);
  // `stem`_exps.weight [experts, out, in], or `stem`.N.weight [out, in] for each expert: those of `here`; and
  // `stem`_exps.bias [experts, out] where the file has it.
  graph::ExpertParameter experts(const std::string& stem, size_t experts, size_t out, size_t in,
                                 MemberRange here);
  // Matrices of `name` [count, out, in]: those of `here`.
  graph::ExpertParameter stacked(const std::string& name, size_t count, size_t out, size_t in,
                                 MemberRange here);
  // What the adapters add to experts `here` of those stacked in `name` [experts, out, in].
  std::vector<nn::ExpertLowRank> expert_adapters(const std::string& name, size_t experts, size_t out,
                                                 size_t in, MemberRange here);
  // The number of those experts as a place that takes adapters; nn::kNoSite: see list_sites().
  size_t expert_site(const std::string& name, size_t experts, size_t out, size_t in);
  // Experts whose gates and outputs are in one matrix `name` [experts, 2 * out, in], gates first.
  std::pair<graph::ExpertParameter, graph::ExpertParameter> fused_experts(const std::string& name,
                                                                          size_t experts, size_t out,
                                                                          size_t in, MemberRange here);
  // `stem`.weight [in], as a matrix of one row.
  nn::Linear linear_row(const std::string& stem, size_t in);
  // [rows, cols] in the file, as floats [cols, rows]: of these rows, one range behind the other.
  graph::Parameter transposed(const std::string& name, size_t rows, size_t cols,
                              std::span<const MemberRange> ranges);
  // Some files have the scale of a whole matrix apart ("<tensor>.scale"), and layers multiply their products
  // by it. Those of experts, and others that no layer here applies: throws Error kUnsupported that names the
  // first. What is measured of inputs ("<tensor>.input_scale") is for machines that round those, and not
  // read.
  void refuse_scales() const;
  // The same, when all is loaded, for scales that no layer took up; `here`: of those of which it says true.
  void check_scales_used(const Needs& here) const;
  // [count], as floats. Missing: an Error, or an empty Parameter for the optional form.
  graph::Parameter vector(const std::string& name, size_t count);
  graph::Parameter optional_vector(const std::string& name, size_t count);
  // The optional form of these values, one range behind the other.
  graph::Parameter gathered_vector(const std::string& name, size_t count,
                                   std::span<const MemberRange> ranges);
  // The same of a tensor of any shape with so many values.
  graph::Parameter flat_vector(const std::string& name, size_t count);
  // [rows, cols] as in the file, for look-ups of single rows.
  graph::Parameter table(const std::string& name, size_t rows, size_t cols);
  // The same for one that stays in the file, of which rows are read now and then: it is not counted as
  // resident.
  graph::Parameter mapped_table(const std::string& name, size_t rows, size_t cols);
  // What the adapters add to rows of the embedding.
  std::vector<nn::LowRank> embedding_adapters(size_t vocab, size_t dim);

  size_t embedding_site(size_t vocab, size_t dim);

  // Throws Error kUnsupported if an adapter changes a tensor that no layer above took up. With `here`: of
  // those of which it says true.
  void check_adapters_used(const Needs& here = {}) const;
  // The tensors whose layers would take up an adapter, of those that were asked for; the output layer under
  // the name that adapters have it by.
  const std::set<std::string>& adaptable() const { return adaptable_; }

  const ModelFile& file() const { return file_; }
  uint64_t packed_bytes() const { return packed_bytes_; }
  uint64_t resident_bytes() const { return resident_bytes_; }  // of all that was loaded, as layers hold it

 private:
  size_t site(AdapterSite::Kind kind, const std::string& target, const Shape& whole,
              std::vector<MemberRange> rows);
  bool is_scale(const NamedTensor& tensor) const;
  // Of the matrix `stem`.weight: 1 where the file has none.
  float scale_of(const std::string& stem);
  // Of any shape, as floats.
  graph::Parameter floats(const std::string& name, const Shape& shape);
  void loaded(const Tensor& tensor);
  // The file's tensor, or its master.
  Tensor tensor(const std::string& name, const Shape& shape);
  // Packs rows of the file's tensor `name`, from `begin` on; or columns of it, whose name then says so.
  kernels::PackedMatrix pack(const Tensor& matrix, const std::string& name, size_t begin);
  kernels::PackedMatrix pack_anew(const Tensor& matrix);
  kernels::PackedMatrix sizes_only(const Tensor& matrix);
  // Rows of the tensor and of what belongs to it, one range behind the other; `adapted` is the name adapters
  // have it under.
  nn::Linear linear_rows(const std::string& stem, const Tensor& whole, std::span<const MemberRange> ranges,
                         const std::string& adapted);
  nn::Linear linear_rows(const std::string& stem, const Tensor& whole, MemberRange range,
                         const std::string& adapted) {
    return linear_rows(stem, whole, std::span(&range, 1), adapted);
  }

  const ModelFile& file_;
  std::span<const Adapter> adapters_;
  std::set<std::string> adapted_;  // tensors whose adapters were taken up
  std::set<std::string> adaptable_;
  std::set<std::string> scaled_;  // scales that were
  ThreadPool& pool_;
  LoadProgress progress_;
  uint64_t done_bytes_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t packed_bytes_ = 0;
  uint64_t resident_bytes_ = 0;
  bool with_values_ = true;
  bool training_ = false;
  bool embedding_frozen_ = false;
  PackedWeights* shared_ = nullptr;
  std::vector<AdapterSite>* sites_ = nullptr;  // null: layers get no number
  GroupShare group_;
  std::map<std::string, Tensor> masters_;
};

}  // namespace butterfly::model
