// Image networks as GGUF files: weights together with the description they belong to.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/formats/model_file.h"
#include "train/networks/image_network.h"

namespace butterfly::train {

inline constexpr std::string_view kImageArchitecture = "image";  // general.architecture

// Weights as F32, the text of the description, and what the classes are called where they have names.
void write_image_model(const ImageNetwork& network, std::string_view description,
                       const std::vector<std::string>& classes, const std::filesystem::path& path);

// The description a file holds. Throws Error kCorrupt when there is none.
std::string image_description(const model::ModelFile& file);

// The weights of the file. Throws Error naming the file and the tensor where they do not fit.
void read_image_weights(const model::ModelFile& file, ImageNetwork& network);

}  // namespace butterfly::train
