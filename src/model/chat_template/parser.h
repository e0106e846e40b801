// From the source of a template to its tree. Errors name the line and what was found there.
#pragma once
#include <string_view>

#include "model/chat_template/ast.h"

namespace butterfly::model::chat_template {

Block parse(std::string_view source);

}  // namespace butterfly::model::chat_template
