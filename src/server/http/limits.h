// What one client, and all of them together, may cost. Every wait has a deadline and every queue a bound;
// they stand here.
#pragma once
#include <chrono>
#include <cstddef>

namespace butterfly::server {

struct HttpLimits {
  size_t head_bytes = size_t{16} << 10;  // request line and fields
  size_t field_count = 100;
  size_t chunk_line_bytes = 1024;  // the length of a chunk with its extensions; all trailers together
  size_t body_bytes = size_t{8} << 20;
  // Of what large_body() lets in, which goes to a file beyond body_bytes; so many at once, more are answered
  // 503.
  size_t large_bodies = 4;
  // Bodies that are being received or worked on, of all connections: half-sent bodies cannot fill the memory.
  size_t bodies_bytes = size_t{64} << 20;

  // Over this the connection that has waited longest without a request makes room for the new one.
  size_t connection_count = 4096;
  size_t prepare_queue =
      256;  // requests that wait for a thread to be read and checked; more are answered 429

  std::chrono::milliseconds handshake_time{10'000};
  std::chrono::milliseconds head_time{10'000};  // from its first byte to its last
  std::chrono::milliseconds idle_time{60'000};  // between requests
  // A body may take body_time and a second more for each of these bytes.
  std::chrono::milliseconds body_time{20'000};
  size_t body_bytes_per_second = size_t{64} << 10;
  // A client that takes nothing for so long (16 KiB, or what is left), or lets so much pile up, is cut.
  std::chrono::milliseconds write_time{30'000};
  size_t write_queue_bytes = size_t{1} << 20;
  std::chrono::milliseconds ping_time{10'000};  // of silence in a stream
  std::chrono::milliseconds linger_time{
      2'000};  // to read an answer that came before the whole request was sent
};

}  // namespace butterfly::server
