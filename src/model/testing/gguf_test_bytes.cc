#include "model/testing/gguf_test_bytes.h"

#include "base/error.h"
#include "model/formats/gguf_writer.h"

namespace butterfly::model::testing {

std::vector<std::byte> small_gguf() {
  Metadata metadata("small");
  metadata.add("general.architecture", std::string("llama"));
  metadata.add("t.u8", uint8_t{200});
  metadata.add("t.i8", int8_t{-100});
  metadata.add("t.u16", uint16_t{60000});
  metadata.add("t.i16", int16_t{-30000});
  metadata.add("t.u32", uint32_t{4000000000});
  metadata.add("t.i32", int32_t{-2000000000});
  metadata.add("t.f32", 1.5f);
  metadata.add("t.bool", true);
  metadata.add("t.u64", uint64_t{1} << 60);
  metadata.add("t.i64", -(int64_t{1} << 60));
  metadata.add("t.f64", 0.1);
  metadata.add("t.strings", string_array({"one", "", "three\xff"}));
  metadata.add("t.i32s", i32_array({1, -2, 3}));
  metadata.add("t.bools", MetaArray{MetaType::kBool, std::vector<uint8_t>{0, 1}});
  metadata.add("t.nested", MetaArray{MetaType::kArray,
                                     std::vector<MetaArray>{f32_array({1, 2}), string_array({"deep"})}});
  GgufWriter writer(metadata);
  const auto fill = [](ByteSink& sink, size_t count, int first) {
    std::vector<std::byte> bytes(count);
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
    sink.write(bytes);
  };
  writer.add_tensor("a", DType::kF32, {2, 3}, [=](ByteSink& sink) { fill(sink, 24, 1); });
  writer.add_tensor("b", DType::kQ8_0, {2, 32}, [=](ByteSink& sink) { fill(sink, 68, 50); });
  writer.add_tensor("c", DType::kF16, {5}, [=](ByteSink& sink) { fill(sink, 10, 120); });
  MemorySink sink;
  writer.write(sink);
  return sink.bytes;
}

std::string parse_error(std::span<const std::byte> bytes) {
  try {
    GgufFile::parse(bytes, "f.gguf");
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace butterfly::model::testing
