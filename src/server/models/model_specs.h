// Which models a server has, from what the user wrote after -m and --lora.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "server/models/served_model.h"
#include "server/settings/settings.h"

namespace butterfly::server {

// "name=file" or "file", whose name is the file's without its ending. Throws Error kInvalidArgument: no
// model, a bad name, an adapter without a model.
std::vector<ModelSpec> model_specs(const Settings& settings,
                                   const std::function<std::filesystem::path(const std::string&)>& resolve);

// The same for one.
ModelSpec model_spec(const Settings& settings, const std::string& text,
                     const std::function<std::filesystem::path(const std::string&)>& resolve);

ModelOptions model_options(const Settings& settings);

}  // namespace butterfly::server
