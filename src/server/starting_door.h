// Answers `status` while a server starts: the first start of a cluster measures the machine, for ten seconds
// and more, before there is anything else to ask.
#pragma once
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "server/http/http_server.h"

namespace butterfly::server {

// Listens on the management socket, and on no network, from its making to its end; one thread of its own.
// Every question is answered with the status of a cluster that does not serve yet. Throws Error as HttpServer
// does.
class StartingDoor {
 public:
  StartingDoor(const std::string& socket, std::string model);
  ~StartingDoor();
  StartingDoor(const StartingDoor&) = delete;
  StartingDoor& operator=(const StartingDoor&) = delete;

 private:
  void answer(Exchange& exchange) const;

  const std::string model_;
  const TimePoint began_ = system_now();
  std::unique_ptr<HttpServer> http_;
  std::thread thread_;
};

}  // namespace butterfly::server
