// What a position of a text holds, named by all tokens up to it.
#pragma once
#include <cstdint>

#include "base/sha256.h"

namespace butterfly::runtime {

// Keys, values and hidden rows of a position depend on the model, its adapter and on these tokens alone (not
// on who computed them, when, or in which company), so equal names are equal bits. A cryptographic hash:
// nobody can write a text that is taken for another one.
using Lineage = Sha256;
inline constexpr Lineage kNoText{};  // before the first token

// Of texts that an adapter is added for: before their first token.
Lineage lineage_of_adapter(uint32_t adapter);
Lineage lineage_after(const Lineage& before, int32_t token);

}  // namespace butterfly::runtime
