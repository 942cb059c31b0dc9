// A rank of an MPI peer; symccl-bench starts it through that MPI's launcher and tells it what to measure (peers.hpp has
// the protocol). Built once per MPI, by scripts/bench_peers.sh.
#include <errno.h>
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { kPeriod = 4093 };  // elements after which the data repeats: a prime

struct Task {
  char op[32], type[32], reduction[32];
  int root, warmup, iterations, check, reuse, inPlace;
  size_t count;
  unsigned long long first;
};

struct Type {
  const char* name;
  MPI_Datatype mpi;
  size_t bytes;
};

static int rank, ranks;

static const struct Type* typeOf(const char* name) {
  static const struct Type all[] = {{"int8", MPI_INT8_T, 1},     {"uint8", MPI_UINT8_T, 1}, {"int32", MPI_INT32_T, 4},
                                    {"uint32", MPI_UINT32_T, 4}, {"int64", MPI_INT64_T, 8}, {"uint64", MPI_UINT64_T, 8},
                                    {"float32", MPI_FLOAT, 4},   {"float64", MPI_DOUBLE, 8}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    if (strcmp(all[i].name, name) == 0) return &all[i];
  }
  return NULL;
}

static int reductionOf(const char* name, MPI_Op* op) {
  const struct {
    const char* name;
    MPI_Op op;
  } all[] = {{"sum", MPI_SUM},     {"product", MPI_PROD}, {"min", MPI_MIN},    {"max", MPI_MAX},
             {"bitAnd", MPI_BAND}, {"bitOr", MPI_BOR},    {"bitXor", MPI_BXOR}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    if (strcmp(all[i].name, name) != 0) continue;
    *op = all[i].op;
    return 1;
  }
  return 0;
}

static int is(const struct Task* task, const char* op) { return strcmp(task->op, op) == 0; }
static int reduces(const struct Task* task) {
  return is(task, "all_reduce") || is(task, "reduce") || is(task, "reduce_scatter");
}

static size_t sendElements(const struct Task* task) {
  if (is(task, "barrier") || is(task, "broadcast")) return 0;
  const int whole = is(task, "reduce_scatter") || is(task, "all_to_all") || is(task, "scatter");
  return task->count * (whole ? (size_t)ranks : 1);
}
static size_t recvElements(const struct Task* task) {
  if (is(task, "barrier")) return 0;
  const int whole = is(task, "all_gather") || is(task, "all_to_all") || is(task, "gather");
  return task->count * (whole ? (size_t)ranks : 1);
}

// Whole numbers that are exact in every type, also when reduced.
static int64_t value(const struct Task* task, int source, size_t place) {
  uint64_t x = (uint64_t)source * kPeriod + place % kPeriod + 1;
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  if (!reduces(task)) return (int64_t)(x % 128);
  if (strcmp(task->reduction, "sum") == 0) return (int64_t)(x % (uint64_t)(ranks > 60 ? 2 : 121 / ranks));
  if (strcmp(task->reduction, "product") == 0) return source < 6 ? (int64_t)(1 + x % 2) : 1;
  return (int64_t)(x % 128);
}

static int64_t reduced(const struct Task* task, size_t place) {
  int64_t result = value(task, 0, place);
  for (int source = 1; source < ranks; ++source) {
    const int64_t next = value(task, source, place);
    const char* op = task->reduction;
    if (strcmp(op, "product") == 0) {
      result *= next;
    } else if (strcmp(op, "min") == 0) {
      result = next < result ? next : result;
    } else if (strcmp(op, "max") == 0) {
      result = next > result ? next : result;
    } else if (strcmp(op, "bitAnd") == 0) {
      result &= next;
    } else if (strcmp(op, "bitOr") == 0) {
      result |= next;
    } else if (strcmp(op, "bitXor") == 0) {
      result ^= next;
    } else {
      result += next;
    }
  }
  return result;
}

static void encode(char* place, int64_t number, const struct Type* type) {
  if (strcmp(type->name, "float32") == 0) {
    const float real = (float)number;
    memcpy(place, &real, sizeof real);
  } else if (strcmp(type->name, "float64") == 0) {
    const double real = (double)number;
    memcpy(place, &real, sizeof real);
  } else {
    memcpy(place, &number, type->bytes);  // the lowest byte comes first
  }
}

// Two periods of the elements of `source`, or of the reduction for -1.
static char* makeTable(const struct Task* task, const struct Type* type, int source) {
  char* table = malloc(2 * kPeriod * type->bytes);
  for (size_t i = 0; i < 2 * kPeriod; ++i) {
    encode(table + i * type->bytes, source < 0 ? reduced(task, i) : value(task, source, i), type);
  }
  return table;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static void fill(char* out, const char* table, size_t count, size_t start, size_t bytes) {
  for (size_t done = 0; done < count; done += kPeriod) {
    memcpy(out + done * bytes, table + start % kPeriod * bytes, smaller(kPeriod, count - done) * bytes);
  }
}

static unsigned long long differing(const char* in, const char* table, size_t count, size_t start, size_t bytes) {
  unsigned long long wrong = 0;
  const char* expected = table + start % kPeriod * bytes;
  for (size_t done = 0; done < count; done += kPeriod) {
    const size_t part = smaller(kPeriod, count - done);
    if (memcmp(in + done * bytes, expected, part * bytes) == 0) continue;
    for (size_t i = 0; i < part; ++i) wrong += memcmp(in + (done + i) * bytes, expected + i * bytes, bytes) != 0;
  }
  return wrong;
}

// `tables`: of every rank, and of the reduction behind them.
static unsigned long long wrongElements(const struct Task* task, char** tables, const char* recv, size_t shift,
                                        size_t bytes) {
  const size_t count = task->count, mine = (size_t)rank * count;
  const int before = (rank + ranks - 1) % ranks;
  if (is(task, "barrier")) return 0;
  if ((is(task, "reduce") || is(task, "gather")) && rank != task->root) return 0;
  if (is(task, "all_reduce") || is(task, "reduce")) return differing(recv, tables[ranks], count, shift, bytes);
  if (is(task, "reduce_scatter")) return differing(recv, tables[ranks], count, mine + shift, bytes);
  if (is(task, "broadcast")) return differing(recv, tables[task->root], count, shift, bytes);
  if (is(task, "scatter")) return differing(recv, tables[task->root], count, mine + shift, bytes);
  if (is(task, "sendrecv")) return differing(recv, tables[before], count, shift, bytes);
  unsigned long long wrong = 0;
  const size_t start = is(task, "all_to_all") ? mine : 0;
  for (int source = 0; source < ranks; ++source) {
    wrong += differing(recv + (size_t)source * count * bytes, tables[source], count, start + shift, bytes);
  }
  return wrong;
}

static void call(const struct Task* task, void* send, void* recv, MPI_Datatype type, MPI_Op op) {
  const int count = (int)task->count;
  void* from = task->inPlace ? MPI_IN_PLACE : send;
  if (is(task, "all_reduce")) {
    MPI_Allreduce(from, recv, count, type, op, MPI_COMM_WORLD);
  } else if (is(task, "reduce")) {
    MPI_Reduce(rank == task->root ? from : send, recv, count, type, op, task->root, MPI_COMM_WORLD);
  } else if (is(task, "reduce_scatter")) {
    MPI_Reduce_scatter_block(from, recv, count, type, op, MPI_COMM_WORLD);
  } else if (is(task, "all_gather")) {
    MPI_Allgather(from, count, type, recv, count, type, MPI_COMM_WORLD);
  } else if (is(task, "all_to_all")) {
    MPI_Alltoall(from, count, type, recv, count, type, MPI_COMM_WORLD);
  } else if (is(task, "broadcast")) {
    MPI_Bcast(recv, count, type, task->root, MPI_COMM_WORLD);
  } else if (is(task, "gather")) {
    MPI_Gather(send, count, type, recv, count, type, task->root, MPI_COMM_WORLD);
  } else if (is(task, "scatter")) {
    MPI_Scatter(send, count, type, recv, count, type, task->root, MPI_COMM_WORLD);
  } else if (is(task, "sendrecv")) {
    MPI_Sendrecv(send, count, type, (rank + 1) % ranks, 0, recv, count, type, (rank + ranks - 1) % ranks, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

static double nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static unsigned long long measure(const struct Task* task, const struct Type* type, MPI_Op op, double* times) {
  const size_t bytes = type->bytes, sends = sendElements(task), recvs = recvElements(task);
  const size_t most = (sends > recvs ? sends : recvs) * bytes + 64;
  char* recv = aligned_alloc(64, (most + 63) / 64 * 64);
  char* second = aligned_alloc(64, (most + 63) / 64 * 64);
  memset(recv, 1, most);
  memset(second, 1, most);
  const int oneBuffer = task->inPlace || is(task, "broadcast");
  char* send = oneBuffer ? recv : second;
  const size_t own = (size_t)rank * task->count * bytes;
  if (task->inPlace && is(task, "all_gather")) send = recv + own;
  char** tables = malloc(sizeof(char*) * ((size_t)ranks + 1));
  for (int source = 0; source < ranks; ++source) tables[source] = makeTable(task, type, source);
  tables[ranks] = makeTable(task, type, reduces(task) ? -1 : 0);
  const size_t inputs = is(task, "broadcast") ? (rank == task->root ? task->count : 0) : sends;

  unsigned long long wrong = 0;
  const int all = task->warmup + task->iterations + (task->reuse ? 1 : 0);
  for (int i = 0; i < all; ++i) {
    const int last = task->reuse && i == all - 1;  // after reused buffers: once more with data that is known
    const size_t shift = (size_t)((task->first + (unsigned long long)i) * 97 % kPeriod);
    MPI_Barrier(MPI_COMM_WORLD);
    if (i == 0 || last || !task->reuse) fill(send, tables[rank], inputs, shift, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = nanoseconds();
    call(task, send, recv, type->mpi, op);
    const double elapsed = nanoseconds() - began;
    if (i >= task->warmup && !last) times[i - task->warmup] = elapsed;
    if (task->check && (!task->reuse || last)) wrong += wrongElements(task, tables, recv, shift, bytes);
  }
  for (int i = 0; i <= ranks; ++i) free(tables[i]);
  free(tables);
  free(recv);
  free(second);
  return wrong;
}

static void answer(const struct Task* task, FILE* out) {
  const struct Type* type = typeOf(task->type);
  MPI_Op op = MPI_OP_NULL;
  if (type == NULL || (reduces(task) && !reductionOf(task->reduction, &op))) {
    fprintf(out, "absent MPI has no %s of %s\n", task->reduction, task->type);
  } else if (task->count * (size_t)ranks > INT32_MAX) {
    fprintf(out, "absent MPI counts more elements than an int holds only since version 4\n");
  } else if (task->inPlace && is(task, "reduce_scatter")) {
    fprintf(out, "absent MPI leaves the result of an in-place reduce_scatter elsewhere\n");
  } else {
    double* times = malloc(sizeof(double) * (size_t)(task->iterations > 0 ? task->iterations : 1));
    fprintf(out, "times %llu", measure(task, type, op, times));
    for (int i = 0; i < task->iterations; ++i) fprintf(out, " %.0f", times[i]);
    fprintf(out, "\n");
    free(times);
  }
  fflush(out);
}

static int connectTo(const char* name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const size_t length = strlen(name);
  const int control = socket(AF_UNIX, SOCK_STREAM, 0);
  if (length + 1 > sizeof address.sun_path) return -1;
  memcpy(address.sun_path + 1, name, length);
  const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
  return connect(control, (struct sockaddr*)&address, bytes) == 0 ? control : -1;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int control = argc == 2 ? connectTo(argv[1]) : -1;
  if (control < 0) {
    fprintf(stderr, "symccl-bench's socket: %s\n", strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  FILE* in = fdopen(control, "r");
  FILE* out = fdopen(dup(control), "w");
  char version[MPI_MAX_LIBRARY_VERSION_STRING], line[512];
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, "\n,")] = '\0';
  for (char* at = version; *at != '\0'; ++at) {
    if (*at == '\t') *at = ' ';
  }
  fprintf(out, "hello %d %s\n", rank, version);
  fflush(out);
  struct Task task;
  while (fgets(line, sizeof line, in) != NULL &&
         sscanf(line, "block %31s %31s %31s %d %zu %d %d %llu %d %d %d", task.op, task.type, task.reduction, &task.root,
                &task.count, &task.warmup, &task.iterations, &task.first, &task.check, &task.reuse,
                &task.inPlace) == 11) {
    answer(&task, out);
  }
  MPI_Finalize();
  return 0;
}
