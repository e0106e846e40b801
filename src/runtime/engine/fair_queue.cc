#include "runtime/engine/fair_queue.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace butterfly::runtime {

void FairQueue::join(uint64_t client, bool background) {
  auto [it, is_new] = clients_.try_emplace(client);
  if (is_new && clients_.size() > 1) {
    uint64_t least = UINT64_MAX;
    for (const auto& [key, other] : clients_)
      if (key != client) least = std::min(least, other.served);
    it->second.served = least;
  }
  it->second.background = background;
  ++it->second.requests;
}

void FairQueue::leave(uint64_t client) {
  const auto it = clients_.find(client);
  BF_CHECK(it != clients_.end() && it->second.requests > 0) << "client " << client << " has no request";
  if (--it->second.requests == 0) clients_.erase(it);
}

void FairQueue::push_back(uint64_t client, RequestId id, size_t tokens) {
  clients_.at(client).waiting.push_back({id, tokens});
  ++size_;
  tokens_ += tokens;
}

void FairQueue::push_front(uint64_t client, RequestId id, size_t tokens) {
  clients_.at(client).waiting.push_front({id, tokens});
  ++size_;
  tokens_ += tokens;
}

bool FairQueue::remove(uint64_t client, RequestId id) {
  auto& waiting = clients_.at(client).waiting;
  const auto it = std::ranges::find(waiting, id, &Entry::id);
  if (it == waiting.end()) return false;
  tokens_ -= it->tokens;
  --size_;
  waiting.erase(it);
  return true;
}

void FairQueue::charge(uint64_t client, size_t tokens) { clients_.at(client).served += tokens; }

void FairQueue::offer(FunctionRef<Decision(RequestId)> take) {
  std::map<uint64_t, size_t> skipped;  // by client
  for (;;) {
    Client* next = nullptr;
    size_t* skip = nullptr;
    for (auto& [key, client] : clients_) {
      size_t& passed = skipped[key];
      if (passed >= client.waiting.size()) continue;
      const auto turn = [](const Client& of, size_t at) {
        return std::tuple(of.background, of.served, of.waiting[at].id);
      };
      if (next == nullptr || turn(client, passed) < turn(*next, *skip)) {
        next = &client;
        skip = &passed;
      }
    }
    if (next == nullptr) return;
    const Entry entry = next->waiting[*skip];
    switch (take(entry.id)) {
      case Decision::kStop:
        return;
      case Decision::kSkip:
        ++*skip;
        break;
      case Decision::kTake:
        // By its id: taking it may have sent another one back.
        next->waiting.erase(std::ranges::find(next->waiting, entry.id, &Entry::id));
        --size_;
        tokens_ -= entry.tokens;
    }
  }
}

}  // namespace butterfly::runtime
