// For tests and benchmarks: floats as .npy files, which Python reads.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tensor/tensor.h"

namespace butterfly::train::testing {

// Version 1.0: magic, length of the header, header padded so that values begin at a multiple of 64.
inline void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  std::string shape;
  for (const int64_t size : tensor.shape().sizes()) shape += std::to_string(size) + ",";
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  out.write("\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<uint16_t>(header.size());
  out.put(static_cast<char>(length & 255)).put(static_cast<char>(length >> 8));
  out << header;
  out.write(reinterpret_cast<const char*>(tensor.raw()), static_cast<std::streamsize>(tensor.bytes()));
}

}  // namespace butterfly::train::testing
