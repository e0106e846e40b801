#include "cluster/transport/transport_table.h"

#include <fmt/format.h>

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

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(TransportSetting setting) : setting_(std::move(setting)) {}

  Result<std::unique_ptr<Listener>> listen(const std::string& address) override {
    return tcp_listen(setting_.tls, address, setting_.tcp, setting_.enrol);
  }
  Result<std::unique_ptr<Link>> connect(const std::string& address, const std::string& expected_key,
                                        Duration timeout) override {
    return tcp_connect(setting_.tls, address, expected_key, timeout, setting_.tcp);
  }

 private:
  const TransportSetting setting_;
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
