// The 32 bytes before every message on a wire, and how large each kind of message may be.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "cluster/transport/link.h"

namespace butterfly::cluster {

inline constexpr size_t kFrameBytes = 32;
using FrameBytes = std::array<std::byte, kFrameBytes>;

// "BFM1", kind, three zeros, epoch, step, bytes, check of what stands before; little-endian.
//
// The check is for streams that lost their place (ours or the peer's mistake): against attackers there is
// TLS.
FrameBytes encode_frame(const MessageHead& head);

// kCorrupt, with what was expected and found: wrong magic, check or padding, unknown kind, or more bytes than
// the kind may have. So `bytes` of an accepted head is bounded, though still the sender's word.
Result<MessageHead> decode_frame(std::span<const std::byte, kFrameBytes> frame);

// "activations"; "kind 77" has no name and is "unknown".
std::string_view message_kind_name(MessageKind kind);

// The largest body of a kind; 0 for a kind that does not exist.
size_t message_bytes_max(MessageKind kind);

// The sum of the pieces, or kInvalidArgument when that is more than the kind may have: nothing was sent then.
Result<uint32_t> message_bytes(MessageKind kind, std::span<const std::span<const std::byte>> pieces);

}  // namespace butterfly::cluster
