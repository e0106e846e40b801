// Items that can be read in any order: the one view of token files, texts and images.
#pragma once
#include <cstdint>
#include <string>

#include "train/data/batch.h"

namespace butterfly::train {

// Immutable once made; read() may be called from any number of threads and depends on `item` alone.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual uint64_t size() const = 0;
  virtual ItemShape shape() const = 0;
  // Fills `into`, whose spans have the sizes of shape(). Throws Error naming the file for what cannot be
  // read.
  virtual void read(uint64_t item, const ItemView& into) const = 0;
  // One line for people: "60000 images of 1x28x28, 10 classes".
  virtual std::string describe() const = 0;
};

}  // namespace butterfly::train
