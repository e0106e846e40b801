// The two functions of Highway's library that the kernels need, for builds with one static target.
#include "hwy/targets.h"

namespace hwy {

int64_t SupportedTargets() { return HWY_TARGETS; }

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
