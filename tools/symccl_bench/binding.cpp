#include "symccl_bench/binding.hpp"

namespace symccl::bench {

const cpu_set_t& cpusAtStart() {
  static const cpu_set_t cpus = [] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    (void)::sched_getaffinity(0, sizeof mask, &mask);
    return mask;
  }();
  return cpus;
}

bool bindRank(int rank, int ranks) {
  const cpu_set_t& cpus = cpusAtStart();
  if (CPU_COUNT(&cpus) < ranks) return false;
  int before = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &cpus) || before++ < rank) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return ::sched_setaffinity(0, sizeof one, &one) == 0;
  }
  return false;
}

}  // namespace symccl::bench
