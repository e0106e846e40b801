#include "chain/loopback_chain.h"

#include <sched.h>

#include <future>

#include "base/testing/temp_dir.h"
#include "cluster/identity/authority.h"
#include "cluster/transport/spin.h"
#include "runtime/planning/plan_pieces.h"

namespace butterfly::bench {
namespace {

constexpr Duration kPatience = std::chrono::seconds(10);

std::unique_ptr<runtime::LoadedModel> load(const std::filesystem::path& path, ThreadPool& pool,
                                           const model::LayerRange& range, size_t context) {
  runtime::LoadOptions options;
  options.with_tokenizer = false;
  options.context = context;
  options.range = range;
  return runtime::load_model(path, pool, options);
}

}  // namespace

void pin_to(size_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    fail(Errc::kInvalidArgument, "cannot run on CPU {} alone", cpu);
}

std::pair<std::shared_ptr<cluster::Link>, std::shared_ptr<cluster::Link>> loopback_pair(
    const cluster::TcpOptions& options) {
  const testing::TempDir folder;
  const auto state = cluster::StateFolder::make(folder / "state");
  const auto here = cluster::found_cluster(state, "bench", "here", cluster::wall_now());
  const auto authority = cluster::Authority::load(state);
  const auto key = cluster::PrivateKey::make();
  const auto own = authority.issue(cluster::CertificateRequest::make(key, "there"), cluster::wall_now());
  const cluster::Credentials there{.authority = here.authority, .own = own, .key = key};
  auto listener =
      cluster::tcp_listen(std::make_shared<cluster::NodeTls>(here), "127.0.0.1:0", options).or_throw();
  auto accepted = std::async(std::launch::async, [&] { return listener->accept(kPatience).or_throw(); });
  std::shared_ptr<cluster::Link> b =
      cluster::tcp_connect(std::make_shared<cluster::NodeTls>(there), listener->address(), here.id().key,
                           kPatience, options)
          .or_throw();
  std::shared_ptr<cluster::Link> a = accepted.get();
  return {a, b};
}

size_t balanced_cut(const std::filesystem::path& path) {
  const auto pieces = runtime::plan_pieces(model::open_model(path), {.context = 512}).pieces;
  double all = 0, before = 0;
  for (const auto& piece : pieces) all += piece.decode.bytes();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const double with = before + pieces[i].decode.bytes();
    if (with > all / 2) return i + (with - all / 2 < all / 2 - before);
    before = with;
  }
  return pieces.size() - 1;
}

LoopbackChain::LoopbackChain(const std::filesystem::path& path, const LoopbackOptions& options)
    : options_(options) {
  // Links count the CPUs once: before this thread is pinned to one of them.
  (void)cluster::spin_until_readable(-1, std::chrono::microseconds(1));
  if (options_.cut == 0) options_.cut = balanced_cut(path);
  const size_t layers = model::read_config(model::open_model(path)).layers;
  first_ = load(path, first_compute_.take().pool(), model::range_of_pieces(0, options_.cut, layers),
                options.context);
  last_ = load(path, last_compute_.take().pool(), model::range_of_pieces(options_.cut, layers + 2, layers),
               options.context);
}

LoopbackChain::~LoopbackChain() { end(); }

void LoopbackChain::end() {
  if (!thread_.joinable()) return;
  here_->close();
  thread_.join();
}

std::unique_ptr<runtime::LinkedChain> LoopbackChain::start(std::shared_ptr<runtime::ChainTimes> times,
                                                           bool expect) {
  end();
  options_.chain.expect_steps = expect;
  worker_ = std::make_unique<runtime::StageRunner>(*first_, first_compute_, 0, options_.chain);
  cluster::TcpOptions tcp;
  tcp.spin = options_.spin;
  std::tie(here_, there_) = loopback_pair(tcp);
  thread_ = std::thread([this] {
    if (options_.pin) pin_to(1);
    (void)worker_->run(there_, there_);
  });
  return std::make_unique<runtime::LinkedChain>(*last_, last_compute_, 1, here_, here_, options_.chain,
                                                std::move(times));
}

}  // namespace butterfly::bench
