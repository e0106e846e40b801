// The tests of templates: value is name.
#include "model/chat_template/operators.h"
#include "model/chat_template/python_text.h"
#include "model/chat_template/tables.h"

namespace butterfly::model::chat_template {

namespace {

using Args = const Arguments&;

template <bool (*predicate)(const Value&)>
bool plain(Budget&, const Value& value, Args arguments) {
  arguments.bind("a test", {});
  return predicate(value);
}

template <Op op>
bool comparison(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("a test", {"other"});
  if (bound[0] == nullptr) fail(Errc::kInvalidArgument, "a test that compares needs a value");
  return compare(budget, op, value, *bound[0]);
}

bool divisible(Budget& budget, const Value& value, const Value& by) {
  return equals(budget, arithmetic(budget, Op::kMod, value, by), Value(0));
}

bool is_iterable(const Value& v) {
  return v.is_undefined() || v.is_text() || v.list() || v.dict() || v.loop();
}
bool is_sequence(const Value& v) {
  return v.is_undefined() || v.is_text() || v.dict() || (v.list() && v.list()->kind != ListKind::kIterator);
}
bool is_same_case(const Value& v, Text (*map)(TextView)) {
  return v.is_text() && map(v.view()).bytes() == v.text() &&
         python_upper(v.view()).bytes() != python_lower(v.view()).bytes();
}

constexpr TestRow kTests[] = {
    {"defined", plain<[](const Value& v) { return !v.is_undefined(); }>},
    {"undefined", plain<[](const Value& v) { return v.is_undefined(); }>},
    {"none", plain<[](const Value& v) { return v.is_none(); }>},
    {"boolean", plain<[](const Value& v) { return v.is_bool(); }>},
    {"true", plain<[](const Value& v) { return v.is_bool() && v.truthy(); }>},
    {"false", plain<[](const Value& v) { return v.is_bool() && !v.truthy(); }>},
    {"integer", plain<[](const Value& v) { return v.is_int() && !v.is_bool(); }>},
    {"float", plain<[](const Value& v) { return v.is<double>(); }>},
    {"number", plain<[](const Value& v) { return v.is_number(); }>},
    {"string", plain<[](const Value& v) { return v.is_text(); }>},
    {"mapping", plain<[](const Value& v) { return v.dict() != nullptr; }>},
    {"iterable", plain<is_iterable>},
    {"sequence", plain<is_sequence>},
    {"callable", plain<[](const Value& v) { return v.callable() != nullptr || v.loop() != nullptr; }>},
    {"lower", plain<[](const Value& v) { return is_same_case(v, python_lower); }>},
    {"upper", plain<[](const Value& v) { return is_same_case(v, python_upper); }>},
    {"escaped", plain<[](const Value&) { return false; }>},
    {"even", [](Budget& b, const Value& v, Args) { return divisible(b, v, Value(2)); }},
    {"odd", [](Budget& b, const Value& v, Args) { return !divisible(b, v, Value(2)); }},
    {"divisibleby",
     [](Budget& b, const Value& v, Args arguments) {
       const auto bound = arguments.bind("divisibleby", {"num"});
       return divisible(b, v, bound[0] == nullptr ? Value(0) : *bound[0]);
     }},
    {"sameas",
     [](Budget& b, const Value& v, Args arguments) {
       const auto bound = arguments.bind("sameas", {"other"});
       if (bound[0] == nullptr) fail(Errc::kInvalidArgument, "sameas needs a value");
       if (v.identity() != nullptr && !v.is_text()) return v.identity() == bound[0]->identity();
       return v.is_bool() == bound[0]->is_bool() && v.is<double>() == bound[0]->is<double>() &&
              equals(b, v, *bound[0]);
     }},
    {"filter",
     [](Budget&, const Value& v, Args) {
       for (const auto table : {text_filters(), list_filters()})
         for (const FilterRow& row : table)
           if (v.is_text() && row.name == v.text()) return true;
       return false;
     }},
    {"test",
     [](Budget&, const Value& v, Args) {
       for (const TestRow& row : tests())
         if (v.is_text() && row.name == v.text()) return true;
       return false;
     }},
    {"in", comparison<Op::kIn>},
    {"eq", comparison<Op::kEq>},
    {"equalto", comparison<Op::kEq>},
    {"==", comparison<Op::kEq>},
    {"ne", comparison<Op::kNe>},
    {"!=", comparison<Op::kNe>},
    {"lt", comparison<Op::kLt>},
    {"lessthan", comparison<Op::kLt>},
    {"<", comparison<Op::kLt>},
    {"le", comparison<Op::kLe>},
    {"<=", comparison<Op::kLe>},
    {"gt", comparison<Op::kGt>},
    {"greaterthan", comparison<Op::kGt>},
    {">", comparison<Op::kGt>},
    {"ge", comparison<Op::kGe>},
    {">=", comparison<Op::kGe>},
};

}  // namespace

std::span<const TestRow> tests() { return kTests; }

}  // namespace butterfly::model::chat_template
