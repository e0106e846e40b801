// Image networks that learn classes from IDX files or folders of images; networks of the same description
// that learn them from tables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/sha256.h"
#include "train/data/augment.h"
#include "train/data/idx_dataset.h"
#include "train/data/image_folder.h"
#include "train/data/joined_dataset.h"
#include "train/data/table_dataset.h"
#include "train/data/text_file.h"
#include "train/networks/image_model.h"
#include "train/networks/image_network.h"
#include "train/task/task.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;

// "…-images-idx3-ubyte.gz" has its labels in "…-labels-idx1-ubyte.gz", as MNIST's files are called.
fs::path labels_of(const fs::path& images) {
  std::string name = images.filename().string();
  const size_t what = name.find("images");
  if (what == std::string::npos)
    fail(Errc::kInvalidArgument, "{}: expected a folder of images, or an IDX file with 'images' in its name",
         images.string());
  name.replace(what, 6, "labels");
  const size_t rank = name.find("idx", what);
  if (rank != std::string::npos && rank + 3 < name.size()) name[rank + 3] = '1';
  return images.parent_path() / name;
}

// Opens data for one network, and sees to it that a label means the same in all of it.
class ImageData {
 public:
  ImageData(const ImageNetwork& network, Normalise normalise)
      : network_(network), normalise_(std::move(normalise)) {}

  std::unique_ptr<Dataset> open(const std::vector<std::string>& paths) {
    if (paths.empty()) return nullptr;
    std::vector<std::unique_ptr<Dataset>> parts;
    for (const std::string& path : paths)
      parts.push_back(fs::is_directory(path) ? open_folder(path)
                      : is_table(path)       ? open_table(path)
                                             : open_idx(path));
    return joined(std::move(parts));
  }
  // What the folders call them; empty with IDX files.
  const std::vector<std::string>& classes() const { return classes_; }

 private:
  ImageShape wanted() const { return {network_.channels(), network_.height(), network_.width()}; }

  std::unique_ptr<Dataset> open_folder(const fs::path& path) {
    auto data = std::make_unique<ImageFolder>(path, wanted(), normalise_);
    check_classes(path, data->classes().size());
    if (classes_.empty()) {
      classes_ = data->classes();
      classes_from_ = path.string();
    } else if (data->classes() != classes_) {
      fail(Errc::kInvalidArgument, "{}: has the classes {}, {} has {}", path.string(),
           fmt::join(data->classes(), ", "), classes_from_, fmt::join(classes_, ", "));
    }
    return data;
  }
  std::unique_ptr<Dataset> open_idx(const fs::path& path) {
    auto data = std::make_unique<IdxDataset>(path, labels_of(path), normalise_);
    const ImageShape found = data->image(), expected = wanted();
    if (found != expected)
      fail(Errc::kInvalidArgument, "{}: images of {}x{}x{}, the network's input is {}x{}x{}", path.string(),
           found.height, found.width, found.channels, expected.height, expected.width, expected.channels);
    check_classes(path, data->classes());
    return data;
  }
  std::unique_ptr<Dataset> open_table(const fs::path& path) {
    auto data = std::make_unique<TableDataset>(path);
    const ImageShape expected = wanted();
    if (data->columns() != expected.values())
      fail(Errc::kInvalidArgument, "{}: rows of {} values, the network's input is {}x{}x{}: {} values",
           path.string(), data->columns(), expected.height, expected.width, expected.channels,
           expected.values());
    check_classes(path, data->classes());
    return data;
  }
  void check_classes(const fs::path& path, size_t found) const {
    if (found > network_.classes())
      fail(Errc::kInvalidArgument, "{}: has {} classes, the network's last layer {}", path.string(), found,
           network_.classes());
  }

  const ImageNetwork& network_;
  Normalise normalise_;
  std::vector<std::string> classes_;
  std::string classes_from_;
};

std::vector<float> per_channel(const char* key, const std::vector<double>& values, size_t channels) {
  if (values.size() != 1 && values.size() != channels)
    fail(Errc::kInvalidArgument, "{}: has {} numbers, images have {} channels", key, values.size(), channels);
  return {values.begin(), values.end()};
}

}  // namespace

Task open_image_task(const TrainConfig& config, bool with_values) {
  if (config.dropout > 0)
    fail(Errc::kInvalidArgument, "dropout: an image network says it in its description, as layers");
  std::string description, name = config.model.network;
  std::unique_ptr<model::ModelFile> base;
  if (!config.base_model.empty())
    base = std::make_unique<model::ModelFile>(model::open_model(config.base_model));
  if (name.empty()) {
    name = config.base_model;
    description = image_description(*base);
  } else {
    description = read_text(name);
  }
  auto network = std::make_unique<ImageNetwork>(description, name, config.seed, with_values);
  if (base != nullptr) read_image_weights(*base, *network);
  ImageData images(*network, {.mean = per_channel("image_mean", config.image_mean, network->channels()),
                              .deviation = per_channel("image_std", config.image_std, network->channels())});
  Task task;
  task.data = images.open(config.datasets);
  task.test_data = images.open(config.test_datasets);
  task.words = fmt::format("images of {}x{}x{}, {} classes", network->height(), network->width(),
                           network->channels(), network->classes());
  task.details = network->summary();
  task.unit = "images";
  if (config.image_flip || config.image_crop > 0) {
    if (2 * config.image_crop >= std::min(network->height(), network->width()))
      fail(Errc::kInvalidArgument, "image_crop: {} pixels each way, images have {} x {}", config.image_crop,
           network->height(), network->width());
    task.change = [augment =
                       Augment{.flip = config.image_flip, .crop = config.image_crop, .seed = config.seed},
                   shape = ImageShape{network->channels(), network->height(), network->width()}](
                      uint64_t batch, size_t row, const ItemView& item) {
      augment.apply(batch, row, shape, item.values);
    };
  }
  task.settings["network"] =
      sha256_hex(std::as_bytes(std::span<const char>(description.data(), description.size())));
  task.write = [learnt = network.get(), description, classes = images.classes()](const fs::path& folder) {
    const fs::path path = folder / "model.gguf";
    write_image_model(*learnt, description, classes, path);
    return path;
  };
  task.write_network = [learnt = network.get(), description](const fs::path& file) {
    write_image_model(*learnt, description, {}, file);
  };
  task.network = std::move(network);
  return task;
}

}  // namespace butterfly::train
