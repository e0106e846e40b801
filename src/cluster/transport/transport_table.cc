#include "cluster/transport/transport_table.h"

#include <fmt/format.h>

#include "cluster/transport/mpi_link.h"

namespace butterfly::cluster {
namespace {

class InprocTransport final : public Transport {
 public:
  explicit InprocTransport(TransportSetting setting) : setting_(std::move(setting)) {}

  Result<std::unique_ptr<Listener>> listen(const std::string& address) override {
    return setting_.network->listen(setting_.self, address);
  }
  Result<std::unique_ptr<Link>> connect(const std::string& address, const std::string& expected_key,
                                        Duration timeout) override {
    auto link = setting_.network->connect(setting_.self, address, timeout);
    if (link.ok() && !expected_key.empty() && (*link)->peer().key != expected_key)
      return {Errc::kInvalidArgument,
              fmt::format("{}: is node {} with key {:.12}, expected key {:.12}", address,
                          (*link)->peer().name, (*link)->peer().key, expected_key)};
    return link;
  }

 private:
  const TransportSetting setting_;
};

class TcpTransport : public Transport {
 public:
  explicit TcpTransport(TransportSetting setting) : setting_(std::move(setting)) {}

  Result<std::unique_ptr<Listener>> listen(const std::string& address) override {
    return tcp_listen(setting_.tls, address, setting_.tcp, setting_.enrol);
  }
  Result<std::unique_ptr<Link>> connect(const std::string& address, const std::string& expected_key,
                                        Duration timeout) override {
    return tcp_connect(setting_.tls, address, expected_key, timeout, setting_.tcp);
  }

 protected:
  const TransportSetting setting_;
};

// Links begin over TCP, which proves who is there; those that carry rows go on over MPI.
class MpiTransport final : public TcpTransport {
 public:
  using TcpTransport::TcpTransport;

  void introduce(Hello& mine, bool opens) override {
    mine.mpi_world = setting_.mpi->id();
    mine.mpi_rank = static_cast<uint32_t>(setting_.mpi->rank());
    if (opens && carries_rows(mine.purpose)) mine.mpi_channel = setting_.mpi->next_channel();
  }
  std::unique_ptr<Link> settle(std::unique_ptr<Link> link, const Hello& mine, const Hello& theirs,
                               bool opened) override {
    const Hello& of_opener = opened ? mine : theirs;
    if (!carries_rows(of_opener.purpose) || theirs.mpi_world != setting_.mpi->id() ||
        theirs.mpi_rank >= setting_.mpi->size() || of_opener.mpi_channel == 0 ||
        of_opener.mpi_channel >= setting_.mpi->channels())
      return link;
    const MpiPlace place{.rank = theirs.mpi_rank, .channel = of_opener.mpi_channel, .opened = opened};
    return std::make_unique<MpiLink>(std::move(link), setting_.mpi, place);
  }
  std::string caution() const override {
    return fmt::format(
        "rows between the {} ranks of this job go over {}, which does not encrypt them ({} bytes sent by "
        "this "
        "rank so far); a lost rank ends the job",
        setting_.mpi->size(), setting_.mpi->library(), setting_.mpi->bytes_sent());
  }
};

template <typename T>
std::unique_ptr<Transport> make(TransportSetting setting) {
  return std::make_unique<T>(std::move(setting));
}

constexpr TransportEntry kTransports[] = {
    {"inproc", "nodes of one process",
     [](const TransportSetting& setting) -> std::string {
       return setting.network == nullptr ? "inproc: needs a network, which only one process has" : "";
     },
     make<InprocTransport>},
    {"tcp", "machines: TCP with mutual TLS 1.3",
     [](const TransportSetting& setting) -> std::string {
       return setting.tls == nullptr ? "tcp: needs a certificate; run init or join first" : "";
     },
     make<TcpTransport>},
    {"mpi", "ranks of an MPI job: rows over MPI, not encrypted; control over TCP with mutual TLS 1.3",
     [](const TransportSetting& setting) -> std::string {
       if (setting.mpi == nullptr)
         return MpiWorld::why_not().empty() ? "mpi: not initialised" : MpiWorld::why_not();
       return setting.tls == nullptr ? "mpi: needs a certificate; run init or join first" : "";
     },
     make<MpiTransport>},
};

}  // namespace

std::span<const TransportEntry> transports() { return kTransports; }

Result<std::unique_ptr<Transport>> make_transport(std::string_view name, TransportSetting setting) {
  std::string names;
  for (const TransportEntry& row : kTransports) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
    if (row.name != name) continue;
    if (std::string why = row.why_not(setting); !why.empty()) return {Errc::kInvalidArgument, std::move(why)};
    return row.make(std::move(setting));
  }
  return {Errc::kNotFound, fmt::format("no transport is called '{}'; there are: {}", name, names)};
}

}  // namespace butterfly::cluster
