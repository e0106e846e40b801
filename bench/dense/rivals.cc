#include "rivals.h"

#include <dlfcn.h>

#include <cstdint>

namespace butterfly::bench {
namespace {

// A shared library with its symbols kept to itself, or null.
void* open_library(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)) return handle;
  return nullptr;
}
template <typename F>
F* symbol(void* handle, const char* name) {
  return reinterpret_cast<F*>(dlsym(handle, name));
}

class OneDnn : public GemmRival {
 public:
  using Sgemm = int(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*,
                    int64_t, float, float*, int64_t);
  explicit OneDnn(Sgemm* sgemm) : sgemm_(sgemm) {}
  std::string name() const override { return "oneDNN"; }
  void set_threads(int threads) override { set_openmp_threads(threads); }
  void run(const kernels::Gemm& j) override {
    sgemm_(j.a.transposed ? 'T' : 'N', j.b.transposed ? 'T' : 'N', static_cast<int64_t>(j.m),
           static_cast<int64_t>(j.n), static_cast<int64_t>(j.k), 1.0f, j.a.data,
           static_cast<int64_t>(j.a.stride), j.b.data, static_cast<int64_t>(j.b.stride),
           j.accumulate ? 1.0f : 0.0f, j.c, static_cast<int64_t>(j.c_stride));
  }

 private:
  Sgemm* sgemm_;
};

class Cblas : public GemmRival {
 public:
  using Sgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*,
                     int);
  Cblas(std::string title, Sgemm* sgemm, void (*threads_setter)(int))
      : name_(std::move(title)), sgemm_(sgemm), set_threads_(threads_setter) {}
  std::string name() const override { return name_; }
  void set_threads(int threads) override { set_threads_(threads); }
  void run(const kernels::Gemm& j) override {
    constexpr int kRowMajor = 101, kNo = 111, kYes = 112;
    sgemm_(kRowMajor, j.a.transposed ? kYes : kNo, j.b.transposed ? kYes : kNo, static_cast<int>(j.m),
           static_cast<int>(j.n), static_cast<int>(j.k), 1.0f, j.a.data, static_cast<int>(j.a.stride),
           j.b.data, static_cast<int>(j.b.stride), j.accumulate ? 1.0f : 0.0f, j.c,
           static_cast<int>(j.c_stride));
  }

 private:
  std::string name_;
  Sgemm* sgemm_;
  void (*set_threads_)(int);
};

void (*blis_set_threads)(int64_t) = nullptr;

}  // namespace

void set_openmp_threads(int threads) {
  static void* handle = open_library({"libgomp.so.1"});
  if (handle != nullptr)
    if (auto* set = symbol<void(int)>(handle, "omp_set_num_threads")) set(threads);
}

std::vector<std::unique_ptr<GemmRival>> gemm_rivals() {
  std::vector<std::unique_ptr<GemmRival>> found;
  if (void* handle = open_library({"libdnnl.so.2", "libdnnl.so.3"}))
    if (auto* sgemm = symbol<OneDnn::Sgemm>(handle, "dnnl_sgemm"))
      found.push_back(std::make_unique<OneDnn>(sgemm));
  const std::string debian = "/usr/lib/x86_64-linux-gnu/";
  if (void* handle = open_library({debian + "openblas-openmp/libopenblas.so.0", "libopenblas.so.0"})) {
    auto* sgemm = symbol<Cblas::Sgemm>(handle, "cblas_sgemm");
    auto* threads = symbol<void(int)>(handle, "openblas_set_num_threads");
    if (sgemm != nullptr && threads != nullptr)
      found.push_back(std::make_unique<Cblas>("OpenBLAS", sgemm, threads));
  }
  if (void* handle = open_library({debian + "blis-openmp/libblis.so.4", "libblis.so.4"})) {
    auto* sgemm = symbol<Cblas::Sgemm>(handle, "cblas_sgemm");
    blis_set_threads = symbol<void(int64_t)>(handle, "bli_thread_set_num_threads");
    if (sgemm != nullptr && blis_set_threads != nullptr)
      found.push_back(std::make_unique<Cblas>("BLIS", sgemm, [](int threads) { blis_set_threads(threads); }));
  }
  return found;
}

}  // namespace butterfly::bench
