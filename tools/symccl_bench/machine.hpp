// What the machine itself can do at this moment: printed beside each row, for its share and for its regime.
#pragma once

#include <cstddef>

#include "symccl_bench/area.hpp"

namespace symccl::bench {

struct MachineState {
  double handOffNs = 0;   ///< a cache line from rank 0 to rank 1, one way; 0 for one rank
  double barrierUs = 0;   ///< the benchmark's own barrier of all ranks
  double wallUs = 0;      ///< every rank copies N bytes at once with streaming stores, in one stream
  double bestWallUs = 0;  ///< the same in four streams
};

/// Measures it. Collective; every rank gets the same numbers.
class Machine {
 public:
  /// `mostBytes`: the largest N that will be asked for.
  Machine(Area& area, std::size_t mostBytes);
  /// N of the walls is `bytes`; above 64 MiB the time for 64 MiB is scaled. 0: no walls.
  MachineState measure(std::size_t bytes);

 private:
  double handOffNs();
  double barrierUs();
  double wallUs(std::size_t bytes, int streams);

  Area& area_;
  std::uint64_t passes_ = 0;
  Mapping source_, destination_;
};

}  // namespace symccl::bench
