/* What the workers of peers in C and C++ share (peer_worker.c), and what each library brings (mpi_peer.c,
 * oneccl_peer.cpp). Built by scripts/bench_peers.sh. */
#ifndef SYMCCL_BENCH_PEER_WORKER_H
#define SYMCCL_BENCH_PEER_WORKER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kMostRanks = 128 };

/* One row; counts and offsets of the blocks are in elements. */
struct Task {
  char op[32], type[32], reduction[32];
  int root, warmup, iterations, check, reuse, inPlace, async;
  size_t count, bytes; /* bytes: of an element */
  unsigned long long first;
  int sends[kMostRanks], sendOffsets[kMostRanks], receives[kMostRanks], recvOffsets[kMostRanks]; /* this rank's */
  int owned[kMostRanks];                                                                      /* of a v kind: each rank's */
};

extern int rank, ranks;

int is(const struct Task* task, const char* op);

/* By the library: */

/* Joins the other ranks and sets `rank` and `ranks`. Returns the socket's name; NULL with a printed reason. */
const char* peerStart(int argc, char** argv);
/* `text` has room for 256 characters. */
void peerVersion(char* text);
/* Collective: the largest of all ranks' values. */
double peerLargest(double value);
/* Before a number of calls; returns NULL, or why the library cannot do this. */
const char* peerPrepare(const struct Task* task);
/* What is timed. */
void peerCall(const struct Task* task, void* send, void* recv);
/* After each call, not timed. */
void peerSettle(const struct Task* task);
void peerEnd(void);

#ifdef __cplusplus
}
#endif

#endif
