// One request and the way back for its answer. What routes see of the network.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "server/http/http_message.h"

namespace butterfly::server {

// Answered once: by respond(), or by begin(), any number of write() and end(). An exchange that is dropped
// unanswered closes its connection.
//
// Thread-safe: engines call write() from their threads. Nothing here blocks. Once the client has gone, or was
// cut because it reads too slowly, everything is thrown away.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;
  virtual HttpRequest& request() = 0;
  virtual const std::string& id() const = 0;  // in the log, and in the answer's X-Request-Id

  virtual void respond(HttpResponse response) = 0;

  // A body in pieces. `ping`, if not empty, is sent by itself after some seconds of silence.
  virtual void begin(HttpResponse head, std::string ping) = 0;
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;

  virtual bool gone() const = 0;
  // Calls `action` once, from the network's thread, when the client goes before the answer is whole; at once
  // if it has gone already. It must be short and must not keep the exchange alive.
  virtual void on_gone(std::function<void()> action) = 0;
};

using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace butterfly::server
