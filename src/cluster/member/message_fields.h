// Fields of control messages, named once: FieldWriter and FieldReader have the same functions, so that one
// list of fields both writes and reads a message.
#pragma once
#include <string>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "cluster/identity/node_id.h"
#include "cluster/node/node_spec.h"
#include "cluster/wire/wire_reader.h"
#include "cluster/wire/wire_writer.h"

namespace butterfly::cluster {

// Bounds of texts, in bytes. A writer BF_CHECKs them, a reader refuses.
inline constexpr size_t kKeyBytesMax = 64;
inline constexpr size_t kNameBytesMax = 128;
inline constexpr size_t kAddressBytesMax = 256;
inline constexpr size_t kTextBytesMax = 512;
inline constexpr size_t kSettingsBytesMax = 8192;

// Writes the fields that fields() lists. Borrows the writer; one message, one thread.
class FieldWriter {
 public:
  template <typename T>
  using Of = const T;
  explicit FieldWriter(WireWriter& out) : out_(out) {}

  void u32(uint32_t value) { out_.u32(value); }
  void u64(uint64_t value) { out_.u64(value); }
  void i64(int64_t value) { out_.i64(value); }
  void flag(bool value) { out_.flag(value); }
  void real(double value) { out_.f64(value); }
  void rate(const ThreadedRate& value) {
    real(value.one);
    real(value.all);
  }
  void duration(Duration value) { out_.u64(static_cast<uint64_t>(value.count())); }
  void text(const std::string& value, size_t bytes_max) {
    BF_CHECK(value.size() <= bytes_max) << "[message] a text of " << value.size() << " bytes";
    out_.text(value);
  }
  void bytes(const std::string& value, size_t bytes_max) {
    BF_CHECK(value.size() <= bytes_max) << "[message] " << value.size() << " bytes";
    out_.text(value);
  }
  void node(const NodeId& value) {
    text(value.key, kKeyBytesMax);
    text(value.name, kNameBytesMax);
  }
  template <typename Enum>
  void choice(Enum value, Enum) {
    out_.enumerator(value);
  }
  template <typename T, typename Fields>
  void list(const std::vector<T>& values, size_t count_max, size_t, Fields&& fields) {
    BF_CHECK(values.size() <= count_max) << "[message] a list of " << values.size();
    out_.count(values.size());
    for (const T& value : values) fields(value);
  }

 private:
  WireWriter& out_;
};

// Reads them, in the same order. After an error everything is zero or empty, and finish() of the reader says
// what was wrong. One thread.
class FieldReader {
 public:
  template <typename T>
  using Of = T;
  explicit FieldReader(WireReader& in) : in_(in) {}

  void u32(uint32_t& value) { value = in_.u32(); }
  void u64(uint64_t& value) { value = in_.u64(); }
  void i64(int64_t& value) { value = in_.i64(); }
  void flag(bool& value) { value = in_.flag(); }
  // Rates and seconds: nothing else makes sense, and planners calculate with them.
  void real(double& value) {
    value = in_.f64();
    if (!(value >= 0 && value <= 1e18)) in_.refuse("a figure that is not from 0 to 1e18");
  }
  void rate(ThreadedRate& value) {
    real(value.one);
    real(value.all);
  }
  void duration(Duration& value) {
    constexpr uint64_t kMax = uint64_t{3600} * 1'000'000'000;
    const uint64_t ns = in_.u64();
    if (ns > kMax) in_.refuse("a duration of more than an hour");
    value = Duration(in_.ok() ? static_cast<int64_t>(ns) : 0);
  }
  // Control characters become '?': these texts are shown on terminals.
  void text(std::string& value, size_t bytes_max) {
    value = in_.text(bytes_max);
    for (char& c : value)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  void bytes(std::string& value, size_t bytes_max) { value = in_.text(bytes_max); }
  void node(NodeId& value) {
    text(value.key, kKeyBytesMax);
    text(value.name, kNameBytesMax);
  }
  template <typename Enum>
  void choice(Enum& value, Enum last) {
    value = in_.enumerator(static_cast<Enum>(0), last);
  }
  template <typename T, typename Fields>
  void list(std::vector<T>& values, size_t count_max, size_t element_bytes_min, Fields&& fields) {
    values.resize(in_.count(static_cast<uint32_t>(count_max), element_bytes_min));
    for (T& value : values) fields(value);
  }

 private:
  WireReader& in_;
};

}  // namespace butterfly::cluster
