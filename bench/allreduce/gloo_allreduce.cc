// gloo_allreduce RANK NODES FOLDER REPEATS BYTES: Gloo's allreduce of floats over TCP on loopback, timed as
// main.cc times ours. Each rank prints a line of JSON with the seconds of all its rounds and its CPU seconds.
// Not part of the build: race.py compiles it where libgloo-dev is installed.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

static double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const int rank = std::atoi(argv[1]), nodes = std::atoi(argv[2]), repeats = std::atoi(argv[4]);
  const size_t bytes = std::strtoull(argv[5], nullptr, 10), floats = bytes / sizeof(float);
  gloo::transport::tcp::attr where;
  where.iface = "lo";
  auto device = gloo::transport::tcp::CreateDevice(where);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, nodes);
  gloo::rendezvous::FileStore store(argv[3]);
  context->connectFullMesh(store, device);
  std::vector<float> gradients(floats), result(floats);
  for (size_t i = 0; i < floats; ++i) gradients[i] = static_cast<float>(rank + 1) + static_cast<float>(i % 7);
  std::vector<double> seconds;
  double cpu = 0;
  const int untimed = repeats < 2 ? 2 : repeats;
  for (int r = 0; r < untimed + repeats; ++r) {
    gloo::BarrierOptions together(context);
    gloo::barrier(together);
    if (r == untimed) cpu = cpu_seconds();
    const auto start = std::chrono::steady_clock::now();
    gloo::AllreduceOptions options(context);
    options.setInput(gradients.data(), floats);
    options.setOutput(result.data(), floats);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
    if (r >= untimed)
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const float expected = static_cast<float>(nodes * (nodes + 1)) / 2 + static_cast<float>(nodes);
  if (result[8] != expected) return 1;
  std::printf("{\"cpu_s\":%.6f,\"seconds\":[", cpu_seconds() - cpu);
  for (size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.9f", i == 0 ? "" : ",", seconds[i]);
  std::printf("]}\n");
}
