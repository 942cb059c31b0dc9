// A rank of a peer that is called from C; symccl-bench starts it and tells it what to measure (peers.hpp has the
// protocol). What the library does is in mpi_peer.c and oneccl_peer.cpp.
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "peer_worker.h"

enum { kPeriod = 4093 };  // elements after which the data repeats: a prime
// Nanoseconds: between agreeing on a start and starting; before it, without a call of the kernel.
enum { kHeadStart = 20000, kLastSpin = 3000 };

int rank, ranks;

static size_t bytesOf(const char* type) {
  const struct {
    const char* name;
    size_t bytes;
  } all[] = {{"int8", 1},   {"uint8", 1},   {"int32", 4},    {"uint32", 4},  {"int64", 8},
             {"uint64", 8}, {"float16", 2}, {"bfloat16", 2}, {"float32", 4}, {"float64", 8}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    if (strcmp(all[i].name, type) == 0) return all[i].bytes;
  }
  return 0;
}

int is(const struct Task* task, const char* op) { return strcmp(task->op, op) == 0; }

static int isOneOf(const struct Task* task, const char* const* ops) {
  for (; *ops != NULL; ++ops) {
    if (is(task, *ops)) return 1;
  }
  return 0;
}
static int reduces(const struct Task* task) {
  static const char* const ops[] = {"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_v", NULL};
  return isOneOf(task, ops);
}
static int sendsAll(const struct Task* task) {
  static const char* const ops[] = {"reduce_scatter",   "all_to_all",   "scatter",
                                    "reduce_scatter_v", "all_to_all_v", "scatter_v", NULL};
  return isOneOf(task, ops);
}
static int receivesAll(const struct Task* task) {
  static const char* const ops[] = {"all_gather",   "all_to_all",   "gather",
                                    "all_gather_v", "all_to_all_v", "gather_v", NULL};
  return isOneOf(task, ops);
}
static int isEmpty(const struct Task* task) { return is(task, "barrier") || is(task, "communicator"); }

// Elements that `from` has for `to`; see Task::blockElements().
static size_t block(const struct Task* task, int from, int to) {
  int place = -1;
  if (is(task, "all_gather_v") || is(task, "gather_v")) place = from;
  if (is(task, "reduce_scatter_v") || is(task, "scatter_v")) place = to;
  if (is(task, "all_to_all_v")) place = (from + to) % ranks;
  return place < 0 ? task->count : 2 * task->count * (size_t)(place + 1) / (size_t)(ranks + 1);
}
static size_t sendOffset(const struct Task* task, int from, int to) {
  size_t offset = 0;
  for (int before = 0; before < to; ++before) offset += block(task, from, before);
  return offset;
}
static size_t recvOffset(const struct Task* task, int from, int to) {
  size_t offset = 0;
  for (int before = 0; before < from; ++before) offset += block(task, before, to);
  return offset;
}
static size_t sendElements(const struct Task* task) {
  if (isEmpty(task) || is(task, "broadcast")) return 0;
  return sendsAll(task) ? sendOffset(task, rank, ranks) : block(task, rank, 0);
}
static size_t recvElements(const struct Task* task) {
  if (isEmpty(task)) return 0;
  return receivesAll(task) ? recvOffset(task, ranks, rank) : block(task, 0, rank);
}

static void layOut(struct Task* task) {
  const int byDestination = sendsAll(task);
  for (int other = 0; other < ranks; ++other) {
    task->sends[other] = (int)block(task, rank, other);
    task->receives[other] = (int)block(task, other, rank);
    task->sendOffsets[other] = (int)sendOffset(task, rank, other);
    task->recvOffsets[other] = (int)recvOffset(task, other, rank);
    task->owned[other] = (int)(byDestination ? block(task, 0, other) : block(task, other, 0));
  }
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

// Whole numbers of at most eight bits, so that they are exact in the short types too.
static uint16_t encodeShort(int64_t number, int fraction, int bias) {
  int exponent = 0;
  if (number == 0) return 0;
  while (number >> (exponent + 1) != 0) ++exponent;
  return (uint16_t)(((exponent + bias) << fraction) | (int)((number << (fraction - exponent)) - (1 << fraction)));
}

static void encode(char* place, int64_t number, const struct Task* task) {
  const char* type = task->type;
  if (strcmp(type, "float32") == 0) {
    const float real = (float)number;
    memcpy(place, &real, sizeof real);
  } else if (strcmp(type, "float64") == 0) {
    const double real = (double)number;
    memcpy(place, &real, sizeof real);
  } else if (strcmp(type, "float16") == 0 || strcmp(type, "bfloat16") == 0) {
    const uint16_t half = type[0] == 'f' ? encodeShort(number, 10, 15) : encodeShort(number, 7, 127);
    memcpy(place, &half, sizeof half);
  } else {
    memcpy(place, &number, task->bytes);  // the lowest byte comes first
  }
}

// Two periods of the elements of `source`, or of the reduction for -1.
static char* makeTable(const struct Task* task, int source) {
  char* table = malloc(2 * kPeriod * task->bytes);
  for (size_t i = 0; i < 2 * kPeriod; ++i) {
    encode(table + i * task->bytes, source < 0 ? reduced(task, i) : value(task, source, i), task);
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
static unsigned long long wrongElements(const struct Task* task, char** tables, const char* recv, size_t shift) {
  const size_t bytes = task->bytes;
  const int toRoot = is(task, "reduce") || is(task, "gather") || is(task, "gather_v");
  if (isEmpty(task) || (toRoot && rank != task->root)) return 0;
  if (receivesAll(task)) {
    unsigned long long wrong = 0;
    for (int source = 0; source < ranks; ++source) {
      const size_t start = sendsAll(task) ? sendOffset(task, source, rank) : 0;
      wrong += differing(recv + recvOffset(task, source, rank) * bytes, tables[source], block(task, source, rank),
                         start + shift, bytes);
    }
    return wrong;
  }
  const int fromRoot = is(task, "broadcast") || is(task, "scatter") || is(task, "scatter_v");
  const int source = is(task, "sendrecv") ? (rank + ranks - 1) % ranks : fromRoot ? task->root : ranks;
  const size_t start = sendsAll(task) ? sendOffset(task, 0, rank) : 0;
  return differing(recv, tables[source], block(task, 0, rank), start + shift, bytes);
}

static double nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* As Area::startTogether(). */
static void startTogether(void) {
  const double moment = peerLargest(nanoseconds() + kHeadStart);
  for (double left = 1; left > 0;) {
    left = moment - nanoseconds();
    if (left > kLastSpin) sched_yield();
  }
}

static unsigned long long measure(const struct Task* task, double* times) {
  const size_t bytes = task->bytes, sends = sendElements(task), recvs = recvElements(task);
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
  for (int source = 0; source < ranks; ++source) tables[source] = makeTable(task, source);
  tables[ranks] = makeTable(task, reduces(task) ? -1 : 0);
  const int fromRoot = is(task, "broadcast") || is(task, "scatter") || is(task, "scatter_v");
  const size_t inputs = fromRoot && rank != task->root ? 0 : is(task, "broadcast") ? task->count : sends;

  unsigned long long wrong = 0;
  const int all = task->warmup + task->iterations + (task->reuse ? 1 : 0);
  for (int i = 0; i < all; ++i) {
    const int last = task->reuse && i == all - 1;  // after reused buffers: once more with data that is known
    const size_t shift = (size_t)((task->first + (unsigned long long)i) * 97 % kPeriod);
    peerLargest(0);  // a barrier
    if (i == 0 || last || !task->reuse) fill(send, tables[rank], inputs, shift, bytes);
    task->reuse ? (void)peerLargest(0) : startTogether();
    const double began = nanoseconds();
    peerCall(task, send, recv);
    const double elapsed = nanoseconds() - began;
    peerSettle(task);
    if (i >= task->warmup && !last) times[i - task->warmup] = elapsed;
    if (task->check && (!task->reuse || last)) wrong += wrongElements(task, tables, recv, shift);
  }
  for (int i = 0; i <= ranks; ++i) free(tables[i]);
  free(tables);
  free(recv);
  free(second);
  return wrong;
}

static void answer(struct Task* task, FILE* out) {
  const char* absent = NULL;
  task->bytes = bytesOf(task->type);
  if (task->bytes == 0) {
    absent = "its worker does not know this type";
  } else if (task->count * (size_t)ranks > INT32_MAX) {
    absent = "more elements than an int counts";
  } else {
    layOut(task);
    absent = peerPrepare(task);
  }
  if (absent != NULL) {
    fprintf(out, "absent %s\n", absent);
  } else {
    double* times = malloc(sizeof(double) * (size_t)(task->iterations > 0 ? task->iterations : 1));
    fprintf(out, "times %llu", measure(task, times));
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
  const char* name = peerStart(argc, argv);
  if (name == NULL) return 1;
  const int control = connectTo(name);
  if (control < 0) {
    fprintf(stderr, "symccl-bench's socket: %s\n", strerror(errno));
    return 1;
  }
  FILE* in = fdopen(control, "r");
  FILE* out = fdopen(dup(control), "w");
  char version[256], line[512];
  peerVersion(version);
  version[strcspn(version, "\n,")] = '\0';
  for (char* at = version; *at != '\0'; ++at) {
    if (*at == '\t') *at = ' ';
  }
  fprintf(out, "hello %d %s\n", rank, version);
  fflush(out);
  struct Task task;
  while (fgets(line, sizeof line, in) != NULL &&
         sscanf(line, "block %31s %31s %31s %d %zu %d %d %llu %d %d %d %d", task.op, task.type, task.reduction,
                &task.root, &task.count, &task.warmup, &task.iterations, &task.first, &task.check, &task.reuse,
                &task.inPlace, &task.async) == 12) {
    answer(&task, out);
  }
  peerEnd();
  return 0;
}
