#include "butterfly/training.h"

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "train/train_run.h"

namespace butterfly {
namespace {

train::TrainConfig config_of(const std::string& path, const std::map<std::string, std::string>& keys) {
  train::TrainConfig config;
  if (!path.empty()) train::read_config_file(path, config);
  for (const auto& [key, value] : keys) train::set_config_value(config, key, value);
  train::check_config(config);
  return config;
}

}  // namespace

struct Training::Impl {
  train::TrainRun run;
  train::Batch batch;
  explicit Impl(const train::TrainConfig& config) : run(config, train::RunMode::kAfresh) {
    if (run.steps() == 0) fail(Errc::kInvalidArgument, "datasets: the run has no data to learn from");
  }
};

Training::Training(const std::string& config, const std::map<std::string, std::string>& keys)
    : impl_(std::make_unique<Impl>(config_of(config, keys))) {}
Training::Training(Training&&) noexcept = default;
Training& Training::operator=(Training&&) noexcept = default;
Training::~Training() = default;

uint64_t Training::steps() const { return impl_->run.steps(); }
uint64_t Training::step_count() const { return impl_->run.step(); }

TrainedStep Training::step() {
  if (done())
    fail(Errc::kInvalidArgument, "all {} steps are done; max_steps or num_epochs gives more", steps());
  impl_->run.fill_batch(impl_->run.step(), impl_->batch);
  const train::StepReport report = impl_->run.trainer().step(impl_->run.cut(impl_->batch));
  if (!std::isfinite(report.loss))
    fail(Errc::kInvalidArgument, "step {}: the loss is {}; a smaller learning_rate or max_grad_norm may help",
         step_count(), report.loss);
  return {.step = step_count(),
          .loss = report.loss,
          .grad_norm = report.grad_norm,
          .learning_rate = report.lr,
          .targets = report.targets,
          .seconds = report.seconds};
}

std::optional<double> Training::validate() {
  const auto report = impl_->run.validate();
  return report ? std::optional(report->loss) : std::nullopt;
}

std::string Training::save(const std::string& folder) {
  std::filesystem::create_directories(folder);
  return impl_->run.task().write(folder).string();
}

}  // namespace butterfly
