// Messages as variants: one byte says which alternative it is, then come its fields.
//
// A Codec says how one kind of messages is written:
//   static constexpr std::string_view kWhat;   // for errors: "control message"
//   static constexpr size_t kBytesMax;         // of a message; more is not looked at
//   template <typename M> static void write(WireWriter& out, const M& message);
//   template <typename M> static void read(WireReader& in, M& message);  // and refuses what makes no sense
// Every alternative has kType and kName.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "cluster/wire/wire_reader.h"
#include "cluster/wire/wire_writer.h"

namespace butterfly::cluster {

// Whether no two alternatives have the same type byte.
template <typename... M>
constexpr bool types_differ(std::type_identity<std::variant<M...>>) {
  constexpr uint8_t kTypes[] = {M::kType...};
  for (size_t i = 0; i < sizeof...(M); ++i)
    for (size_t j = 0; j < i; ++j)
      if (kTypes[i] == kTypes[j]) return false;
  return true;
}

template <typename Codec, typename Variant>
std::vector<std::byte> encode_message(const Variant& message) {
  static_assert(types_differ(std::type_identity<Variant>()));
  WireWriter out(256);
  std::visit(
      [&]<typename M>(const M& m) {
        out.u8(M::kType);
        Codec::write(out, m);
      },
      message);
  BF_CHECK(out.size() <= Codec::kBytesMax) << "[" << Codec::kWhat << "] " << out.size() << " bytes";
  return std::move(out).take();
}

// Tries the alternatives of the variant one after the other for the one of this type.
template <typename Codec, typename Variant, size_t I = 0>
Result<Variant> decode_alternative(uint8_t type, WireReader& in) {
  if constexpr (I == std::variant_size_v<Variant>) {
    return {Errc::kCorrupt, fmt::format("[{}] type {} is not known here", Codec::kWhat, type)};
  } else {
    using M = std::variant_alternative_t<I, Variant>;
    if (type != M::kType) return decode_alternative<Codec, Variant, I + 1>(type, in);
    Variant message{std::in_place_index<I>};
    Codec::read(in, std::get<I>(message));
    if (Status bad = in.finish(M::kName); !bad.ok()) return bad;
    return message;
  }
}

template <typename Codec, typename Variant>
Result<Variant> decode_message(std::span<const std::byte> body) {
  if (body.size() > Codec::kBytesMax)
    return {Errc::kCorrupt, fmt::format("[{}] {} bytes, at most {} are allowed", Codec::kWhat, body.size(),
                                        Codec::kBytesMax)};
  WireReader in(body);
  const uint8_t type = in.u8();
  return decode_alternative<Codec, Variant>(type, in);
}

}  // namespace butterfly::cluster
