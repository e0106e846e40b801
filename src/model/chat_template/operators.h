// Python's operators on values.
#pragma once
#include "model/chat_template/ast.h"
#include "model/chat_template/value.h"

namespace butterfly::model::chat_template {

bool equals(Budget& budget, const Value& a, const Value& b);
// Below zero, zero or above, as a is less than, equal to or greater than b. Fails where Python has no order.
// Not for NaN, which compares false.
int order(Budget& budget, const Value& a, const Value& b);
bool contains(Budget& budget, const Value& container, const Value& item);
bool compare(Budget& budget, Op op, const Value& a, const Value& b);

Value arithmetic(Budget& budget, Op op, const Value& a, const Value& b);
Value negate(const Value& value);

// What a for statement walks over: items, keys of a dict, characters of a text; nothing for undefined.
Values iterate(Budget& budget, const Value& value);
int64_t length(const Value& value);

// value[key]; undefined when there is none.
Value item_of(Budget& budget, const Value& value, const Value& key);
Value slice_of(Budget& budget, const Value& value, const Value& start, const Value& stop, const Value& step);

[[noreturn]] void fail_undefined(const Value& value);
void require_defined(const Value& value);

}  // namespace butterfly::model::chat_template
