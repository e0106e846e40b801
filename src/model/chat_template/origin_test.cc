// Where bytes of texts come from, through every row of the tables: nothing that was input comes out as the
// template's own.
#include <gtest/gtest.h>

#include "model/chat_template/python_text.h"
#include "model/chat_template/tables.h"

namespace butterfly::model::chat_template {
namespace {

TEST(Text, KnowsWhereItsBytesAreFrom) {
  Text text("own ", Origin::kTemplate);
  EXPECT_EQ(text.memory(), 4u);
  text.append("typed", Origin::kInput);
  EXPECT_EQ(text.memory(), 18u);
  text.append(text.bytes().substr(0, 3), Origin::kTemplate);
  EXPECT_EQ(text.bytes(), "own typedown");
  EXPECT_EQ(text.input_ranges(), (std::vector<ByteRange>{{4, 9}}));
  EXPECT_EQ(text.view().substr(0, 4).origin(), Origin::kTemplate);
  EXPECT_EQ(text.view().substr(3, 2).origin(), Origin::kInput);
  EXPECT_EQ(Text(text.view().substr(8)).input_ranges(), (std::vector<ByteRange>{{0, 1}}));
  const std::string other = "typed";
  EXPECT_EQ(text.part(other).origin(), Origin::kInput) << "a view of something else";
  EXPECT_EQ(Text("in").input_ranges(), (std::vector<ByteRange>{{0, 2}}));
  EXPECT_TRUE(Text().input_ranges().empty());
}

// Letters of the input that a result calls the template's. '<' and 'Q' are written by nothing but the input.
size_t forged(const Value& value) {
  size_t count = 0;
  if (value.is_text())
    for (size_t i = 0; i < value.text().size(); ++i) {
      const char c = value.text()[i];
      count += (c == '<' || c == 'Q' || c == 'q') && value.view().at(i) == Origin::kTemplate;
    }
  if (const List* list = value.list())
    for (const Value& item : list->items) count += forged(item);
  if (const Dict* dict = value.dict())
    for (const auto& [key, item] : dict->entries) count += forged(key) + forged(item);
  return count;
}

// Applies a row to all small combinations of values that came with a request; counts how often it worked.
template <typename Row>
size_t try_all(const Row& row, const Value& self) {
  Budget budget{Limits{}};
  const Value choices[] = {Value("<"),  Value("Q<Q"),
                           Value("1"),  Value(2),
                           Value(true), make_list(budget, {Value("<Q"), Value("Q>")}, ListKind::kTuple)};
  size_t worked = 0;
  const auto attempt = [&](Values positional) {
    try {
      const Value result = row.apply(budget, self, Arguments{std::move(positional), {}});
      ++worked;
      EXPECT_EQ(forged(result), 0u) << row.name;
      EXPECT_EQ(forged(Value(python_str(budget, result))), 0u) << row.name;
    } catch (const Error&) {  // not with these arguments
    }
  };
  attempt({});
  for (const Value& a : choices) {
    attempt({a});
    for (const Value& b : choices) {
      attempt({a, b});
      for (const Value& c : choices) attempt({a, b, c});
    }
  }
  return worked;
}

TEST(Origin, StaysInputThroughEveryFilterAndMethod) {
  Budget budget{Limits{}};
  DictBuilder dict(budget);
  dict.add(Value("<Q>"), Value("Q<q"));
  const Value values[] = {Value("  <Q>a %s {} <s>\nQ<q \xc3\xa9\x01"), Value("<Q"),
                          make_list(budget, {Value("<"), Value("q<")}), dict.take()};
  size_t rows = 0;
  for (const auto table : {text_filters(), list_filters()})
    for (const FilterRow& row : table) {
      for (const Value& value : values) try_all(row, value);
      ++rows;
    }
  for (const Value& value : values)
    for (const MethodRow& row : methods_of(value)) {
      if (row.apply == nullptr) continue;
      EXPECT_GT(try_all(row, value), 0u) << row.name << ": was never reached";
      ++rows;
    }
  EXPECT_GT(rows, 80u);
}

}  // namespace
}  // namespace butterfly::model::chat_template
