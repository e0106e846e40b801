// What work throws, as a Status: for threads whose caller waits for a report.
#pragma once
#include <new>

#include "base/error.h"
#include "base/result.h"

namespace butterfly::runtime {

template <typename F>
auto reported(F&& work) -> Result<decltype(work())> {
  try {
    return work();
  } catch (const Error& error) {
    return Status(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return Status(Errc::kOutOfMemory, "no memory left");
  } catch (const std::exception& error) {
    return Status(Errc::kIo, error.what());
  }
}

}  // namespace butterfly::runtime
