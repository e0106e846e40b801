// The ranks of an MPI job, seen from one of them. MPI's own header is included by mpi_world.cc alone; a
// program that is built without it has no_mpi.cc behind this one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/pooled_array.h"

namespace butterfly::cluster {

// Bytes that come from one rank under one tag, in order. Of one thread at a time. What is under way when it
// is destroyed goes into memory that lives as long as the job.
class MpiInbox {
 public:
  virtual ~MpiInbox() = default;
  // What came and was not taken yet, the oldest; none: nothing did. Never waits. Valid until take().
  virtual std::optional<std::span<const std::byte>> look() = 0;
  // Done with what look() showed: its room is for others.
  virtual void take() = 0;
};

// Bytes to one rank under one tag. Of one thread at a time. Who sends bounds what is under way by what the
// other end has said to have taken: MPI itself has no bound.
class MpiOutbox {
 public:
  virtual ~MpiOutbox() = default;
  // Never waits. Keeps the bytes until they are on their way, also when this is destroyed before.
  virtual void send(PooledArray<std::byte> bytes) = 0;
};

// One for the life of a process that mpirun or srun started, thread-safe but for what is said below. Nothing
// here is encrypted or checked against a certificate: links prove who they are over TLS first. A rank that is
// lost takes the whole job with it; that is MPI's rule.
class MpiWorld {
 public:
  // Why this process is no rank of a job; empty when it is one.
  static std::string why_not();
  // Initialises MPI, with threads. Once in a process, in its first thread. Throws Error kUnsupported.
  static std::shared_ptr<MpiWorld> join();
  virtual ~MpiWorld() = default;

  virtual size_t rank() const = 0;
  virtual size_t size() const = 0;
  virtual uint64_t id() const = 0;          // of this job, the same on all ranks; never 0
  virtual std::string library() const = 0;  // "Open MPI 4.1.4"
  virtual uint64_t bytes_sent() const = 0;  // by this rank, in all outboxes
  virtual uint32_t next_channel() = 0;      // another one for every link that this rank opens
  virtual uint32_t channels() const = 0;    // they are below this

  // All ranks call these, in the same order, each from its first thread.
  virtual std::string broadcast(const std::string& of_first) = 0;
  virtual std::vector<std::string> gather(const std::string& mine) = 0;  // by rank, on all of them

  // The first rank tells the others that the job is over; they look now and then.
  virtual void tell_end() = 0;
  virtual bool end_told() = 0;
  // Everybody's last call; waits for the others. Links are gone by then.
  virtual void finish() = 0;
  // Ends all ranks, at once. Does not return.
  virtual void abort(int code) = 0;

  // `bytes` is the most that one message has, `count` how many may come before the first is taken without
  // being copied aside.
  virtual std::unique_ptr<MpiInbox> inbox(size_t rank, uint32_t tag, size_t bytes, size_t count) = 0;
  virtual std::unique_ptr<MpiOutbox> outbox(size_t rank, uint32_t tag) = 0;

  // The tags of a channel: each end sends bytes and tells what it took.
  static constexpr uint32_t kTagsPerChannel = 4;
};

}  // namespace butterfly::cluster
