// The program of the peers that run in torch: torch_worker.py, as the build embedded it.
#pragma once

namespace symccl::bench {

/// Python source, for `python -c`. Arguments: socket, rank, ranks, backend, meeting file, registration.
extern const char* const kTorchWorker;

}  // namespace symccl::bench
