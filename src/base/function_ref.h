// A borrowed callable: two pointers, no allocation. Lives only as long as the call it is passed to.
#pragma once
#include <memory>
#include <type_traits>
#include <utility>

namespace butterfly {

template <typename Signature>
class FunctionRef;

// Borrows the callable, which must outlive every call; free to copy. As thread-safe as what it borrows.
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F&& f)                        // NOLINT: implicit on purpose
      : object_((void*)std::addressof(f)),  // the one cast that takes const objects and plain functions alike
        call_([](void* object, Args... args) -> R {
          return (*reinterpret_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace butterfly
