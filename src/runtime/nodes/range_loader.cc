#include "runtime/nodes/range_loader.h"

#include <fmt/format.h>

#include "base/background_pool.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/nodes/group_links.h"
#include "runtime/nodes/node_door.h"
#include "runtime/nodes/parked_caches.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kOpenMax = std::chrono::seconds(5);
constexpr Duration kLetGoMax = std::chrono::seconds(10);  // then it is tried with what is free
constexpr Duration kLetGoLook = std::chrono::milliseconds(2);

void throw_if(const std::atomic<bool>& cancelled) {
  if (cancelled) fail(Errc::kCancelled, "the work is not wanted any more");
}

cluster::Digest model_id(const cluster::Assignment& work) {
  const auto id = cluster::digest_from_hex(work.model.id);
  if (!id) fail(Errc::kCorrupt, "'{:.80}' is no model id", work.model.id);
  return *id;
}

// Who has which part of the layers: exchanges depend on the others' parts too.
std::string members_words(const cluster::Assignment& work) {
  std::string words = fmt::format("member {} of", work.member);
  for (const auto& member : work.members) words += fmt::format(" ({})", to_string(member.share));
  return words;
}

}  // namespace

void RangeLoader::moved(uint64_t done, uint64_t total) {
  done_.store(done, std::memory_order_relaxed);
  total_.store(total, std::memory_order_relaxed);
  moves_.fetch_add(1, std::memory_order_relaxed);
}

RangeLoader::Progress RangeLoader::progress() const {
  return {done_.load(std::memory_order_relaxed), total_.load(std::memory_order_relaxed),
          moves_.load(std::memory_order_relaxed)};
}

// Claims what it needs before it looks, so that two jobs that load at the same time do not both count on it.
void RangeLoader::check_memory(const MemoryForecast& forecast, const std::string& what) {
  options_.memory->wait_for_releases(options_.job, kLetGoMax);
  options_.memory->claim(options_.job, forecast.total());
  Status fits = check_fits(forecast, options_.memory->usable_bytes(options_.job), what);
  if (!fits && options_.parked != nullptr && options_.parked->bytes(options_.job) > 0) {
    options_.parked->drop(options_.job);  // others compute again what they would have got
    fits = check_fits(forecast, options_.memory->usable_bytes(options_.job), what);
  }
  if (!fits) options_.memory->release(options_.job);
  fits.or_throw();
}

std::vector<cluster::WeightPeer> RangeLoader::peers_of(const cluster::Assignment& work) const {
  std::vector<cluster::WeightPeer> peers;
  cluster::Hello hello = options_.hello;
  hello.purpose = cluster::LinkPurpose::kWeights;
  for (const cluster::Assignment::Source& source : work.sources) {
    if (source.node == options_.self || source.address.empty()) continue;
    peers.push_back({source.node.name, [transport = options_.transport, source, hello] {
                       return open_link(*transport, source.address, source.node.key, hello, kOpenMax);
                     }});
  }
  return peers;
}

cluster::FetchOptions RangeLoader::fetch_options(const std::atomic<bool>& cancelled) {
  cluster::FetchOptions fetch;
  fetch.bytes_per_s = options_.fetch_bytes_per_s;
  fetch.cancelled = &cancelled;
  fetch.progress = [this](uint64_t done, uint64_t total) { moved(done, total); };
  return fetch;
}

void RangeLoader::prepare(const cluster::Assignment& work, const std::atomic<bool>& cancelled) {
  prepare_model(work, cancelled);
  prepare_adapters(work, settings_of(work).or_throw(), cancelled);
}

PreparedWeights RangeLoader::prepare_model(const cluster::Assignment& work,
                                           const std::atomic<bool>& cancelled) {
  const cluster::Digest id = model_id(work);
  if (const auto here = options_.library->find(id); here != nullptr)
    if (dynamic_cast<const cluster::WholeFiles*>(here.get()) != nullptr)
      return {.source = here, .whole_file = true, .fetched = {}};
  ThreadPool threads = background_pool(options_.compute->size());
  PreparedWeights prepared = prepare_weights(id, work.begin, work.end, peers_of(work), options_.places,
                                             threads, fetch_options(cancelled));
  options_.library->add(prepared.source);
  if (prepared.fetched.bytes > 0)
    log_info("{}: {} fetched in {} chunks", work.model.name, format_bytes(prepared.fetched.bytes),
             prepared.fetched.chunks);
  return prepared;
}

std::vector<model::AdapterSpec> RangeLoader::prepare_adapters(const cluster::Assignment& work,
                                                              const StageSettings& settings,
                                                              const std::atomic<bool>& cancelled) {
  std::vector<model::AdapterSpec> specs;
  for (const StageAdapter& adapter : settings.adapters) {
    const auto id = cluster::digest_from_hex(adapter.id);
    if (!id) fail(Errc::kCorrupt, "'{:.80}' is no adapter's id", adapter.id);
    std::shared_ptr<const cluster::ChunkSource> source = options_.library->find(*id);
    if (source == nullptr) {
      ThreadPool threads = background_pool(options_.compute->size());
      source = prepare_files(*id, peers_of(work), options_.places, threads, fetch_options(cancelled)).source;
      options_.library->add(source);
    }
    specs.push_back({model_path(*source), adapter.scale});
  }
  return specs;
}

std::shared_ptr<const LoadedModel> RangeLoader::load(const cluster::Assignment& work,
                                                     const std::atomic<bool>& cancelled,
                                                     uint64_t kept_bytes) {
  const StageSettings settings = settings_of(work).or_throw();
  const std::string wanted = fmt::format("{} {}-{} {} {}", work.model.id, work.begin, work.end,
                                         members_words(work), work.model.settings);
  if (loaded_ != nullptr && loaded_for_ == wanted) return loaded_;
  const PreparedWeights prepared = prepare_model(work, cancelled);
  std::vector<model::AdapterSpec> adapters = prepare_adapters(work, settings, cancelled);
  throw_if(cancelled);
  try {
    loaded_ =
        load_range(work, settings, model_path(*prepared.source), std::move(adapters), cancelled, kept_bytes);
  } catch (...) {
    free();
    throw;
  }
  loaded_for_ = wanted;
  options_.memory->loaded(options_.job, loaded_->resident_bytes);
  return loaded_;
}

std::shared_ptr<const LoadedModel> RangeLoader::load_range(
    const cluster::Assignment& work, const StageSettings& settings, const std::filesystem::path& path,
    std::vector<model::AdapterSpec> adapters, const std::atomic<bool>& cancelled, uint64_t kept_bytes) {
  LoadOptions load;
  {
    const model::ModelFile file = model::open_model(path);
    const size_t layers = model::read_config(file, settings.context).layers;
    if (work.pieces != layers + 2 || work.begin >= work.end || work.end > work.pieces)
      fail(Errc::kCorrupt, "pieces {} to {} of {}: the model has {}", work.begin, work.end, work.pieces,
           layers + 2);
    const model::LayerRange range = model::range_of_pieces(work.begin, work.end, layers);
    load.range = range;
    keep_matrices(work, range, file, layers);
    let_go(cancelled);
    uint64_t here = 0;
    for (const auto& [name, matrix] : weights_->packed) here += matrix.bytes();
    options_.memory->loaded(options_.job, here + kept_bytes);
    load.group = group_share(work);
    MemoryForecast forecast = forecast_memory(file, range, settings, options_.compute->size(), load.group);
    for (const model::AdapterSpec& adapter : adapters) forecast.weight_bytes += adapter_bytes(adapter.path);
    load.progress_bytes = forecast.read_bytes;
    check_memory(forecast, fmt::format("{} of {}", to_string(range, layers), work.model.name));
    log_info("{}: loading {}: {}; {} of the weights are here already", work.model.name,
             to_string(range, layers), forecast.words(), format_bytes(here));
  }
  load.with_tokenizer = false;
  load.adapters = std::move(adapters);
  load.context = settings.context;
  load.weights = weights_;
  load.progress = [&](uint64_t done, uint64_t total) {
    throw_if(cancelled);
    moved(done, total);
  };
  ThreadPool threads = background_pool(options_.compute->size());
  return load_model(path, threads, load);
}

// Of the matrices in memory those that the range needs too. The model's id is the hash of its file, so they
// are the same whatever the file's time says, which moves when more of it is fetched.
void RangeLoader::keep_matrices(const cluster::Assignment& work, const model::LayerRange& range,
                                const model::ModelFile& file, size_t layers) {
  const std::string wanted = work.model.id + " " + to_string(work.self().share);
  if (weights_ == nullptr || weights_for_ != wanted) weights_ = std::make_shared<SharedWeights>();
  weights_for_ = wanted;
  std::erase_if(weights_->packed, [&](const auto& entry) {
    return !range_needs(range, layers, file, entry.first.substr(0, entry.first.find(':')));
  });
  weights_->file_bytes = file.file_bytes();
  weights_->modified = std::filesystem::last_write_time(file.path());
}

// The engine may be in a step with the part before, and lets go of it afterwards: its memory is needed.
void RangeLoader::let_go(const std::atomic<bool>& cancelled) {
  const std::weak_ptr<const LoadedModel> before = loaded_;
  loaded_.reset();
  loaded_for_.clear();
  const Deadline deadline(SystemClock::instance(), kLetGoMax);
  while (!before.expired() && !deadline.expired() && !cancelled)
    SystemClock::instance().sleep_for(kLetGoLook);
  options_.memory->release(options_.job);  // and not before: another job would count on it
  throw_if(cancelled);
}

void RangeLoader::free() {
  loaded_.reset();
  loaded_for_.clear();
  weights_.reset();
  options_.memory->release(options_.job);
}

}  // namespace butterfly::runtime
