// MPI as a peer of symccl-bench; built once per MPI and started by its launcher.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "peer_worker.h"

static MPI_Datatype type = MPI_DATATYPE_NULL;
static MPI_Op reduction = MPI_OP_NULL;
static MPI_Comm made = MPI_COMM_NULL;

static int findType(const char* name) {
  const struct {
    const char* name;
    MPI_Datatype mpi;
  } all[] = {{"int8", MPI_INT8_T},   {"uint8", MPI_UINT8_T},   {"int32", MPI_INT32_T}, {"uint32", MPI_UINT32_T},
             {"int64", MPI_INT64_T}, {"uint64", MPI_UINT64_T}, {"float32", MPI_FLOAT}, {"float64", MPI_DOUBLE}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    if (strcmp(all[i].name, name) != 0) continue;
    type = all[i].mpi;
    return 1;
  }
  return 0;
}

static int findReduction(const char* name) {
  const struct {
    const char* name;
    MPI_Op op;
  } all[] = {{"sum", MPI_SUM},     {"product", MPI_PROD}, {"min", MPI_MIN},    {"max", MPI_MAX},
             {"bitAnd", MPI_BAND}, {"bitOr", MPI_BOR},    {"bitXor", MPI_BXOR}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    if (strcmp(all[i].name, name) != 0) continue;
    reduction = all[i].op;
    return 1;
  }
  return 0;
}

const char* peerStart(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return argc == 2 ? argv[1] : NULL;
}

void peerVersion(char* text) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  memcpy(text, version, 255);
  text[255] = '\0';
}

double peerLargest(double value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return value;
}

const char* peerPrepare(const struct Task* task) {
  const int moves = strncmp(task->op, "reduce", 6) != 0 && !is(task, "all_reduce");
  if (!findReduction(task->reduction) && !moves) return "MPI has no such reduction";
  if (!findType(task->type)) {  // as bytes, where it is only moved and counts are equal
    if (!moves || task->bytes != 2) return "MPI has no such type";
    type = MPI_INT16_T;
  }
  if (task->inPlace && is(task, "reduce_scatter")) return "MPI leaves the result of it in place elsewhere";
  return NULL;
}

void peerCall(const struct Task* task, void* sendBuffer, void* recv) {
  const MPI_Comm world = MPI_COMM_WORLD;
  const int count = (int)task->count, root = task->root;
  void* send = task->inPlace ? MPI_IN_PLACE : sendBuffer;
  if (is(task, "all_reduce")) {
    MPI_Allreduce(send, recv, count, type, reduction, world);
  } else if (is(task, "reduce_scatter")) {
    MPI_Reduce_scatter_block(send, recv, count, type, reduction, world);
  } else if (is(task, "reduce_scatter_v")) {
    MPI_Reduce_scatter(send, recv, task->owned, type, reduction, world);
  } else if (is(task, "all_gather")) {
    MPI_Allgather(send, count, type, recv, count, type, world);
  } else if (is(task, "all_gather_v")) {
    MPI_Allgatherv(send, task->sends[0], type, recv, task->receives, task->recvOffsets, type, world);
  } else if (is(task, "all_to_all")) {
    MPI_Alltoall(send, count, type, recv, count, type, world);
  } else if (is(task, "all_to_all_v")) {
    MPI_Alltoallv(send, task->sends, task->sendOffsets, type, recv, task->receives, task->recvOffsets, type, world);
  } else if (is(task, "broadcast")) {
    MPI_Bcast(recv, count, type, root, world);
  } else if (is(task, "reduce")) {
    MPI_Reduce(task->inPlace && rank != root ? recv : send, recv, count, type, reduction, root, world);
  } else if (is(task, "gather")) {
    MPI_Gather(send, count, type, recv, count, type, root, world);
  } else if (is(task, "gather_v")) {
    MPI_Gatherv(send, task->sends[0], type, recv, task->receives, task->recvOffsets, type, root, world);
  } else if (is(task, "scatter")) {
    MPI_Scatter(send, count, type, recv, count, type, root, world);
  } else if (is(task, "scatter_v")) {
    MPI_Scatterv(send, task->sends, task->sendOffsets, type, recv, task->receives[0], type, root, world);
  } else if (is(task, "sendrecv")) {
    MPI_Sendrecv(send, count, type, (rank + 1) % ranks, 0, recv, count, type, (rank + ranks - 1) % ranks, 0, world,
                 MPI_STATUS_IGNORE);
  } else if (is(task, "communicator")) {
    MPI_Comm_dup(world, &made);
  } else {
    MPI_Barrier(world);
  }
}

void peerSettle(const struct Task* task) {
  (void)task;
  if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
}

void peerEnd(void) { MPI_Finalize(); }
