#include "kernels/panels/pack_table.h"

namespace butterfly::kernels {

std::span<const PackFormat> pack_table() {
#define BF_PANELS_ROW(name) name##_panels,
  static const PackFormat kFormats[] = {BF_PACKED_TYPES(BF_PANELS_ROW)};
#undef BF_PANELS_ROW
  return kFormats;
}

const PackFormat* pack_format(DType dtype) {
  for (const PackFormat& format : pack_table())
    if (format.dtype == dtype) return &format;
  return nullptr;
}

}  // namespace butterfly::kernels
