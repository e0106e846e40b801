// The shapes of objects: which names there are, and what each asks of its value.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/conjunction.h"
#include "model/grammar/dfa_counts.h"
#include "model/grammar/limits.h"

namespace butterfly::model::grammar {

namespace {

constexpr size_t kListedNamesMax = 64;  // of a pattern; more are not told apart
constexpr size_t kCountedClassesMax = 8;

}  // namespace

class ObjectBuilder {
 public:
  ObjectBuilder(ShapeBuilder& shapes, const Conjunction& c) : shapes_(shapes), sets_(shapes.sets_), c_(c) {}

  ObjectShape build() {
    shape_.min_properties = c_.min_properties;
    shape_.max_properties = c_.max_properties;
    shape_.ordered = c_.ordered;
    shape_.conditions.assign(c_.exists.size(), {1, kUnbounded});
    mention_names();
    make_classes();
    // Names that a pattern allows are told apart where they are few: each may come once.
    if (const auto texts = few_names(); !texts.empty() && !c_.ordered) {
      for (const std::string& text : texts) mention(text);
      make_classes();
      few_names();
    }
    for (uint32_t& of : shape_.class_of_name)
      of = of == 0 ? static_cast<uint32_t>(shape_.classes.size()) : of - 1;
    return std::move(shape_);
  }

 private:
  using Exists = Conjunction::ExistsProperty;

  const SchemaNode& node(NodeId id) const { return sets_.graph_.nodes[id]; }

  uint32_t mention(const std::string& name) {
    const auto [found, is_new] = index_of_.try_emplace(name, static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return found->second;
  }

  void mention_properties(NodeId id) {
    for (const auto& property : node(id).properties)
      properties_[uint64_t{id} << 32 | mention(property.name)] = property.node;
  }

  // Every name that the schema mentions, in its order.
  void mention_names() {
    for (const Conjunction::Member& member : c_.object_nodes) mention_properties(member.node);
    for (const Exists& exists : c_.exists) mention_properties(exists.node);
    std::set<uint32_t> required;
    for (const std::string& name : c_.required)
      if (const uint32_t index = mention(name); required.insert(index).second)
        shape_.required.push_back(index);
    for (const std::string& name : c_.forbidden) forbidden_.insert(mention(name));
    for (const auto& [name, value] : c_.property_at) values_at_[mention(name)].push_back(value);
  }

  size_t factor(DfaPtr dfa, bool required) {
    factors_.push_back({dfa.get(), required});
    kept_.push_back(std::move(dfa));
    return factors_.size() - 1;
  }

  void add_patterns(NodeId id) {
    for (size_t i = 0; i < node(id).patterns.size(); ++i)
      if (!pattern_factor_.count({id, i}))
        pattern_factor_[{id, i}] = factor(node(id).patterns[i].names, false);
  }

  // What tells names apart: which one it is, which patterns it matches, whether it is a good name.
  void make_classes() {
    factors_ = {{&any_text(), true}};
    kept_.clear();
    pattern_factor_.clear();
    names_factor_ = factor(std::make_shared<const Dfa>(literal_dfa(names_)), false);
    for (const Conjunction::Member& member : c_.object_nodes) add_patterns(member.node);
    for (const Exists& exists : c_.exists)
      if (exists.kind != Exists::Kind::kBadName) add_patterns(exists.node);
    if (!c_.names.empty()) factor(sets_.text_dfa(LiteralSet(c_.names)), true);
    bad_name_factor_.assign(c_.exists.size(), 0);
    for (size_t i = 0; i < c_.exists.size(); ++i)
      if (c_.exists[i].kind == Exists::Kind::kBadName)
        bad_name_factor_[i] = factor(sets_.text_dfa({c_.exists[i].value}), false);

    shape_.classes.clear();
    shape_.class_of_name.assign(names_.size(), 0);
    class_of_labels_.clear();
    shape_.keys = std::make_shared<const Dfa>(
        product(factors_, [this](std::span<const uint32_t> labels) { return classify(labels); }));
  }

  const NodeId* property_of(NodeId id, uint32_t name) const {
    if (name == 0) return nullptr;
    const auto found = properties_.find(uint64_t{id} << 32 | (name - 1));
    return found == properties_.end() ? nullptr : &found->second;
  }

  bool matches(NodeId id, size_t pattern, std::span<const uint32_t> labels) const {
    return labels[pattern_factor_.at({id, pattern})] != 0;
  }

  bool is_additional(NodeId id, std::span<const uint32_t> labels) const {
    if (property_of(id, labels[names_factor_])) return false;
    for (size_t i = 0; i < node(id).patterns.size(); ++i)
      if (matches(id, i, labels)) return false;
    return true;
  }

  // The class of names with these labels, from 1; 0: no such name may come.
  uint32_t classify(std::span<const uint32_t> labels) {
    // any_text accepts, and good names do; the others only tell apart.
    for (size_t i = 0; i < factors_.size(); ++i)
      if (factors_[i].required && labels[i] == 0) return 0;
    const auto [found, is_new] = class_of_labels_.try_emplace({labels.begin(), labels.end()}, 0);
    if (!is_new) return found->second;
    const uint32_t name = labels[names_factor_];
    if (name != 0 && forbidden_.count(name - 1)) return 0;
    CompileBudget::spend(1 + labels.size() + c_.object_nodes.size());
    NameClass made;
    made.name = name == 0 ? NameClass::kMany : name - 1;
    made.options = options_for(labels);
    if (made.options.empty()) return 0;
    shape_.classes.push_back(std::move(made));
    found->second = static_cast<uint32_t>(shape_.classes.size());
    if (name != 0) shape_.class_of_name[name - 1] = found->second;
    return found->second;
  }

  std::vector<ChildOption> options_for(std::span<const uint32_t> labels) {
    const uint32_t name = labels[names_factor_];
    LiteralSet base;
    uint32_t evaluated = c_.all_properties;  // scopes
    for (const auto& [id, scopes] : c_.object_nodes) {
      const bool additional = is_additional(id, labels);
      if (node(id).additional || !additional) evaluated |= scopes;
      if (const NodeId* property = property_of(id, name)) base.push_back(literal(*property));
      for (size_t i = 0; i < node(id).patterns.size(); ++i)
        if (matches(id, i, labels)) base.push_back(literal(node(id).patterns[i].node));
      if (node(id).additional && additional) base.push_back(literal(*node(id).additional));
    }
    for (size_t k = 0; k < c_.scopes.size(); ++k)
      if (const auto rule = node(c_.scopes[k]).unevaluated_properties; rule && !(evaluated >> k & 1))
        base.push_back(literal(*rule));
    if (const auto at = name == 0 ? values_at_.end() : values_at_.find(name - 1); at != values_at_.end())
      base.insert(base.end(), at->second.begin(), at->second.end());

    std::vector<std::pair<uint32_t, Literal>> counts;
    uint32_t always = 0;
    for (uint32_t i = 0; i < c_.exists.size(); ++i) {
      const Exists& exists = c_.exists[i];
      if (exists.kind == Exists::Kind::kBadName) {
        if (labels[bad_name_factor_[i]] == 0) always |= 1u << i;
      } else if (exists.kind == Exists::Kind::kPattern ? matches(exists.node, exists.pattern, labels)
                                                       : is_additional(exists.node, labels)) {
        counts.emplace_back(i, exists.value);
      }
    }
    std::vector<ChildOption> options = shapes_.options(base, counts, shape_.conditions);
    for (ChildOption& option : options) option.gains |= always;
    return options;
  }

  // Counts the names of classes; gives those of classes that have few.
  std::vector<std::string> few_names() {
    std::vector<std::string> texts;
    size_t counted = 0;
    for (uint32_t i = 0; i < shape_.classes.size(); ++i) {
      NameClass& c = shape_.classes[i];
      if (c.name != NameClass::kMany) continue;
      c.name_count = kUnbounded;
      if (++counted > kCountedClassesMax) continue;
      const LabelTest mine = [i](uint32_t label) { return label == i + 1; };
      c.name_count = text_counts(*shape_.keys, mine)[shape_.keys->start];
      if (texts.size() + c.name_count > kListedNamesMax) continue;
      const auto few = few_texts(*shape_.keys, mine, kListedNamesMax);
      texts.insert(texts.end(), few.begin(), few.end());
    }
    return texts;
  }

  ShapeBuilder& shapes_;
  SchemaSets& sets_;
  const Conjunction& c_;
  ObjectShape shape_;

  std::vector<std::string> names_;
  std::map<std::string, uint32_t> index_of_;
  std::unordered_map<uint64_t, NodeId> properties_;  // (node, name) -> schema of the value
  std::set<uint32_t> forbidden_;
  std::map<uint32_t, std::vector<Literal>> values_at_;  // by name

  std::vector<DfaPtr> kept_;
  std::vector<DfaFactor> factors_;
  size_t names_factor_ = 0;
  std::map<std::pair<NodeId, size_t>, size_t> pattern_factor_;
  std::vector<size_t> bad_name_factor_;
  std::map<std::vector<uint32_t>, uint32_t> class_of_labels_;
};

void ShapeBuilder::add_object(const Conjunction& c) {
  constexpr size_t kConditionsMax = 4;  // each doubles the options
  if (c.exists.size() > kConditionsMax)
    fail(Errc::kUnsupported, "schema: more than {} conditions under 'not' for one object", kConditionsMax);
  to_.objects.push_back(ObjectBuilder(*this, c).build());
}

}  // namespace butterfly::model::grammar
