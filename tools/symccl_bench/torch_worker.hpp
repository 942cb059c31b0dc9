// The program of the peers that run in torch: torch_worker.py and its modules, as the build embedded them.
#pragma once

namespace symccl::bench {

/// Python source, for `python -c`. Arguments: socket, rank, ranks, meeting file, backend, registration.
extern const char* const kTorchWorker;

}  // namespace symccl::bench
