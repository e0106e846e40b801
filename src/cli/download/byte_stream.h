// A connection to a web server, with a deadline for every step: plain, or TLS that believes what the system
// believes.
#pragma once
#include <memory>
#include <span>

#include "base/clock.h"
#include "base/result.h"
#include "cli/download/url.h"

namespace butterfly::cli {

// One thread. After an error it is broken.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Some bytes; 0: the other end has finished. kTimeout, kPeerLost.
  virtual Result<size_t> read(std::span<char> into) = 0;
  virtual Status write(std::span<const char> bytes) = 0;
};

// `patience` is for the whole connect, and then for each read and write. kPeerLost, kTimeout, kNotFound for
// names; kInvalidArgument for certificates that are not believed. The authorities are the system's, or those
// of SSL_CERT_FILE and SSL_CERT_DIR.
Result<std::unique_ptr<ByteStream>> open_stream(const Url& url, Duration patience);

}  // namespace butterfly::cli
