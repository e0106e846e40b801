// Status and Result<T>: what the world did, returned where it is part of normal work (peer lost, queue full).
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace butterfly {

// Ok, or a code and a text. Cheap to copy while ok.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Errc code, std::string text) : code_(code), text_(std::move(text)) {}
  static Status ok_status() { return {}; }

  bool ok() const { return code_ == Errc::kOk; }
  explicit operator bool() const { return ok(); }
  Errc code() const { return code_; }
  const std::string& text() const { return text_; }

  // For edges that turn a status into an exception.
  void or_throw() const {
    if (!ok()) throw_error(code_, text_);
  }

 private:
  Errc code_ = Errc::kOk;
  std::string text_;
};

// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {
    BF_CHECK(!status_.ok()) << "Result from an ok Status";
  }
  Result(Errc code, std::string text) : Result(Status(code, std::move(text))) {}

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }

  T& operator*() & { return *checked(); }
  const T& operator*() const& { return *const_cast<Result*>(this)->checked(); }
  T&& operator*() && { return std::move(*checked()); }
  T* operator->() { return checked(); }
  const T* operator->() const { return const_cast<Result*>(this)->checked(); }

  T or_throw() && {
    status_.or_throw();
    return std::move(*value_);
  }

 private:
  T* checked() {
    BF_CHECK(value_.has_value()) << "Result has no value: " << status_.text();
    return &*value_;
  }
  std::optional<T> value_;
  Status status_;
};

}  // namespace butterfly
