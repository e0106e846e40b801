#include "runtime/nodes/lead_desk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "cluster/transport/message.h"
#include "runtime/nodes/reported.h"

namespace butterfly::runtime {
namespace {

constexpr const char* kRecordFile = "lead";
constexpr const char* kAddressFile = "lead.addresses";
constexpr Duration kQuestionMax = std::chrono::seconds(30);  // between questions of who leads, and others
constexpr Duration kAnswerMax = std::chrono::seconds(5);
constexpr size_t kAddressesMax = 64;
constexpr size_t kAddressBytes = 256;

cluster::VoterRecord read_record(const cluster::StateFolder& folder) {
  if (!folder.has(kRecordFile)) return {};
  const auto record = cluster::VoterRecord::decode(folder.read(kRecordFile));
  if (!record)
    fail(Errc::kCorrupt, "{}: {}; restore it from a backup: this node voted on who leads the cluster",
         (folder.path() / kRecordFile).string(), record.status().text());
  return *record;
}

std::map<std::string, std::string> read_addresses(const cluster::StateFolder& folder) {
  std::map<std::string, std::string> addresses;
  if (!folder.has(kAddressFile)) return addresses;
  std::istringstream in(folder.read(kAddressFile));
  for (std::string key, address; in >> key >> address && addresses.size() < kAddressesMax;)
    addresses[key] = address;
  return addresses;
}

Status write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return {Errc::kIo, fmt::format("the copy of the journal: {}", std::strerror(errno))};
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return {};
}

}  // namespace

std::string mandate_bytes(const cluster::Mandate& mandate) {
  return cluster::VoterRecord{.mandate = mandate}.encode();
}

Result<cluster::Mandate> mandate_of_bytes(std::string_view bytes) {
  auto record = cluster::VoterRecord::decode(bytes);
  if (!record) return record.status();
  return std::move(record->mandate);
}

LeadDesk::LeadDesk(Options options)
    : options_(std::move(options)),
      voter_(read_record(options_.folder), kLeadLease, boot_now()),
      addresses_(read_addresses(options_.folder)) {}

LeadDesk::~LeadDesk() {
  if (file_ >= 0) ::close(file_);
}

cluster::VoterRecord LeadDesk::record() const {
  const std::lock_guard lock(mutex_);
  return voter_.record();
}

Duration LeadDesk::lease_left() const {
  const std::lock_guard lock(mutex_);
  return voter_.lease_left(boot_now());
}

void LeadDesk::on_promised(std::function<void(cluster::Term term)> action) {
  const std::lock_guard lock(mutex_);
  on_promised_ = std::move(action);
}

void LeadDesk::keep(const cluster::VoterRecord& record) {
  options_.folder.write(kRecordFile, record.encode());
}

bool LeadDesk::adopt(const cluster::Mandate& mandate) {
  const std::lock_guard lock(mutex_);
  const cluster::VoterRecord before = voter_.record();
  if (mandate.version <= before.mandate.version) return mandate == before.mandate;
  if (!mandate.signed_by(options_.authority)) return false;
  cluster::VoterRecord record = before;
  record.mandate = mandate;
  const auto kept = reported([&] { return keep(record), true; });
  if (!kept) {
    log_warn("who may lead the cluster cannot be kept here: {}", kept.status().text());
    return false;
  }
  voter_.adopt(mandate);
  return true;
}

cluster::LeadAnswer LeadDesk::answer(const cluster::LeadQuestion& question, const std::string& from) {
  const auto refuse = [&](std::string why) {
    return cluster::LeadAnswer{.number = question.number, .record = voter_.record(), .why = std::move(why)};
  };
  std::function<void(cluster::Term)> tell;
  cluster::LeadAnswer answer;
  {
    const std::lock_guard lock(mutex_);
    if (question.mandate.version > voter_.record().mandate.version &&
        !question.mandate.signed_by(options_.authority))
      return refuse("a mandate that our authority did not sign");
    const cluster::LeadVoter before = voter_;
    answer = voter_.answer(question, from, boot_now());
    if (!(voter_.record() == before.record())) {
      const auto kept = reported([&] { return keep(voter_.record()), true; });
      if (!kept) {
        voter_ = before;
        log_warn("this node cannot vote: {}", kept.status().text());
        return refuse("it cannot be kept here");
      }
      if (voter_.record().promised != before.record().promised) tell = on_promised_;
    }
  }
  if (tell) tell(answer.record.promised);
  if (answer.granted && question.kind == cluster::LeadQuestion::Kind::kRenew)
    for (const cluster::SeatAddress& row : question.addresses) note_address(row.key, row.address);
  if (answer.granted && question.kind == cluster::LeadQuestion::Kind::kCopy) {
    const Status copied = copy(question);
    if (!copied) {
      answer.granted = false;
      answer.why = copied.text();
    }
  }
  return answer;
}

// Beside the journal while it is not whole, then in its place, then behind what is there.
Status LeadDesk::copy(const cluster::LeadQuestion& question) {
  const std::lock_guard lock(copy_mutex_);
  if (closed_ || options_.journal.empty())
    return {Errc::kUnsupported, "this node holds no copy of the journal"};
  const std::string beside = options_.journal.string() + ".copy";
  if (question.anew) {
    if (file_ >= 0) ::close(file_);
    file_ = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    whole_ = false;
  }
  if (file_ < 0) return {Errc::kIo, fmt::format("{}: cannot be written, or was not begun", beside)};
  const auto failed = [&](Status status) {
    ::close(std::exchange(file_, -1));  // who leads begins anew
    return status;
  };
  if (Status wrote = write_all(file_, question.lines); !wrote) return failed(std::move(wrote));
  if (question.more) return {};
  if (::fdatasync(file_) != 0)
    return failed({Errc::kIo, fmt::format("{}: {}", beside, std::strerror(errno))});
  if (whole_) return {};
  if (::rename(beside.c_str(), options_.journal.c_str()) != 0)
    return failed({Errc::kIo, fmt::format("{}: {}", options_.journal.string(), std::strerror(errno))});
  whole_ = true;
  return {};
}

void LeadDesk::close_journal() {
  const std::lock_guard lock(copy_mutex_);
  closed_ = true;
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

void LeadDesk::serve(cluster::Link& link) {
  for (;;) {
    const auto message = cluster::receive_message(link, cluster::kLeadMessageMax, kQuestionMax);
    if (!message) return;
    const auto question = cluster::LeadQuestion::decode(message->body);
    if (!question) {
      log_warn("{}: {}", link.peer().name, question.status().text());
      return;
    }
    const std::vector<std::byte> body = answer(*question, link.peer().key).encode();
    if (!cluster::send_message(link, {.kind = cluster::MessageKind::kControl}, body, kAnswerMax)) return;
  }
}

std::string LeadDesk::address_of(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = addresses_.find(key);
  return found == addresses_.end() ? std::string() : found->second;
}

void LeadDesk::note_address(const std::string& key, const std::string& address) {
  if (address.empty() || address.size() > kAddressBytes || address.find_first_of(" \n") != std::string::npos)
    return;
  const std::lock_guard lock(mutex_);
  if (!addresses_.contains(key) && addresses_.size() >= kAddressesMax) return;
  std::string& known = addresses_[key];
  if (known == address) return;
  known = address;
  std::string text;
  for (const auto& [node, at] : addresses_) text += node + " " + at + "\n";
  const auto kept = reported([&] { return options_.folder.write(kAddressFile, text), true; });
  if (!kept) log_debug("{}", kept.status().text());
}

}  // namespace butterfly::runtime
