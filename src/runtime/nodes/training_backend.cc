#include "runtime/nodes/training_backend.h"

#include <fmt/format.h>

#include <charconv>

#include "base/units.h"

namespace butterfly::runtime {
namespace {

constexpr std::string_view kWords = "training, bytes ";
constexpr Duration kLetGoMax = std::chrono::seconds(10);  // then it is tried with what is free

}  // namespace

std::string training_settings(uint64_t bytes) { return fmt::format("{}{}", kWords, bytes); }

Result<uint64_t> training_bytes(const std::string& settings) {
  uint64_t bytes = 0;
  const char* const end = settings.data() + settings.size();
  const bool named = settings.starts_with(kWords);
  const auto [at, problem] = std::from_chars(settings.data() + (named ? kWords.size() : 0), end, bytes);
  if (!named || problem != std::errc() || at != end || bytes == 0)
    return {Errc::kCorrupt,
            fmt::format("[training] settings '{:.80}', expected '{}' and a number", settings, kWords)};
  return bytes;
}

StageBackend::Preparation TrainingBackend::prepare(const cluster::Assignment& work,
                                                   const std::atomic<bool>&) {
  return {training_bytes(work.model.settings).status()};
}

Result<uint64_t> TrainingBackend::load(const cluster::Assignment& work, const std::atomic<bool>&) {
  const auto bytes = training_bytes(work.model.settings);
  if (!bytes) return bytes.status();
  options_.memory->wait_for_releases(work.job, kLetGoMax);
  const std::lock_guard lock(mutex_);
  if (bytes_ != 0 && job_ != work.job)
    return {Errc::kQueueFull, fmt::format("[training] job {} is trained here, one at a time", job_)};
  options_.memory->claim(work.job, *bytes);
  const uint64_t usable = options_.memory->usable_bytes(work.job);
  if (usable < *bytes && !occupied_) {
    options_.memory->release(work.job);
    bytes_ = 0;
    return {Errc::kOutOfMemory,
            fmt::format("training takes {}, {} are free", format_bytes(*bytes), format_bytes(usable))};
  }
  job_ = work.job;
  bytes_ = *bytes;
  return *bytes;
}

Status TrainingBackend::start(const cluster::Assignment&, Lost) {
  if (options_.begin) options_.begin();
  return {};
}

void TrainingBackend::free_weights() {
  options_.end();
  const std::lock_guard lock(mutex_);
  if (bytes_ != 0) options_.memory->release(job_);
  bytes_ = 0;
}

void TrainingBackend::occupied(bool is) {
  const std::lock_guard lock(mutex_);
  occupied_ = is;
  if (bytes_ != 0) options_.memory->loaded(job_, is ? bytes_ : 0);
}

}  // namespace butterfly::runtime
