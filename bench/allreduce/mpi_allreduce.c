// mpi_allreduce REPEATS BYTES...: MPI_Allreduce of floats, timed as bench/allreduce/main.cc times ours; a line of JSON for each
// size. Not part of the build: race.py compiles it with mpicc where that is installed.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + 1e-6 * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, nodes;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &nodes);
  const int repeats = atoi(argv[1]);
  double* seconds = calloc(repeats, sizeof(double));
  double* longest = calloc(repeats, sizeof(double));
  for (int i = 2; i < argc; ++i) {
    const long bytes = atol(argv[i]), floats = bytes / sizeof(float);
    float* gradients = malloc(bytes);
    float* result = malloc(bytes);
    for (long k = 0; k < floats; ++k) gradients[k] = (float)(rank + 1) + (float)(k % 7);
    double cpu = 0;
    const int untimed = repeats < 2 ? 2 : repeats;
    for (int r = 0; r < untimed + repeats; ++r) {
      MPI_Barrier(MPI_COMM_WORLD);
      if (r == untimed) cpu = cpu_seconds();
      const double start = MPI_Wtime();
      MPI_Allreduce(gradients, result, (int)floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      if (r >= untimed) seconds[r - untimed] = MPI_Wtime() - start;
    }
    cpu = cpu_seconds() - cpu;
    double cpu_all = 0;
    MPI_Reduce(&cpu, &cpu_all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(seconds, longest, repeats, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
      if (result[8] != nodes * (nodes + 1) / 2 + nodes) return 1;
      qsort(longest, repeats, sizeof(double), compare);
      printf("{\"bytes\":%ld,\"p50_s\":%.6f,\"min_s\":%.6f,\"cpu_s_per_gb\":%.3f}\n", bytes, longest[repeats / 2], longest[0],
             cpu_all / ((double)bytes * repeats) * 1e9);
      fflush(stdout);
    }
    free(gradients);
    free(result);
  }
  MPI_Finalize();
  return 0;
}
