// oneCCL as a peer of symccl-bench. Its ranks are started one by one and meet through a file; without a launcher of MPI
// oneCCL takes its OFI transport.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <oneapi/ccl.hpp>

#include "peer_worker.h"

namespace {

std::unique_ptr<ccl::communicator> world;
ccl::datatype type = ccl::datatype::float32;
ccl::reduction reduction = ccl::reduction::sum;

// Rank 0's address, through a file that appears at once.
ccl::kvs::address_type addressOf(const ccl::shared_ptr_class<ccl::kvs>& main, const std::string& meeting) {
  ccl::kvs::address_type address;
  if (main) {
    address = main->get_address();
    std::ofstream(meeting + ".new").write(reinterpret_cast<const char*>(address.data()), address.size());
    std::rename((meeting + ".new").c_str(), meeting.c_str());
    return address;
  }
  for (int tries = 0; tries < 6000 && ::access(meeting.c_str(), R_OK) != 0; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::ifstream(meeting).read(reinterpret_cast<char*>(address.data()), address.size());
  return address;
}

}  // namespace

extern "C" {

const char* peerStart(int argc, char** argv) {
  if (argc != 5) return nullptr;
  rank = std::atoi(argv[2]);
  ranks = std::atoi(argv[3]);
  try {
    ccl::init();
    const auto main = rank == 0 ? ccl::create_main_kvs() : ccl::shared_ptr_class<ccl::kvs>();
    const auto address = addressOf(main, argv[4]);
    world = std::make_unique<ccl::communicator>(
        ccl::create_communicator(ranks, rank, rank == 0 ? main : ccl::create_kvs(address)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "oneCCL: %s\n", error.what());
    return nullptr;
  }
  return argv[1];
}

void peerVersion(char* text) {
  const auto version = ccl::get_library_version();
  std::snprintf(text, 256, "oneCCL %u.%u.%u (OFI)", version.major, version.minor, version.update);
}

double peerLargest(double value) {
  double largest = value;
  ccl::allreduce(&value, &largest, 1, ccl::datatype::float64, ccl::reduction::max, *world).wait();
  return largest;
}

const char* peerPrepare(const Task* task) {
  static const std::map<std::string, ccl::datatype> types = {
      {"int8", ccl::datatype::int8},        {"uint8", ccl::datatype::uint8},     {"int32", ccl::datatype::int32},
      {"uint32", ccl::datatype::uint32},    {"int64", ccl::datatype::int64},     {"uint64", ccl::datatype::uint64},
      {"float16", ccl::datatype::float16},  {"float32", ccl::datatype::float32}, {"float64", ccl::datatype::float64},
      {"bfloat16", ccl::datatype::bfloat16}};
  static const std::map<std::string, ccl::reduction> reductions = {{"sum", ccl::reduction::sum},
                                                                   {"product", ccl::reduction::prod},
                                                                   {"min", ccl::reduction::min},
                                                                   {"max", ccl::reduction::max}};
  static const std::vector<std::string> operations = {"all_reduce",   "reduce_scatter", "all_gather",
                                                      "all_to_all",   "broadcast",      "reduce",
                                                      "all_gather_v", "all_to_all_v",   "barrier"};
  bool known = false;
  for (const std::string& name : operations) known = known || name == task->op;
  if (!known) return "its worker has no such operation";
  if (task->inPlace && !is(task, "all_reduce")) return "its worker has only all_reduce in place";
  const auto found = reductions.find(task->reduction);
  if (found == reductions.end()) return "oneCCL has no such reduction";
  reduction = found->second;
  type = types.at(task->type);
  return nullptr;
}

void peerCall(const Task* task, void* send, void* recv) {
  const auto sizes = [](const int* counts) { return std::vector<std::size_t>(counts, counts + ranks); };
  if (is(task, "all_reduce")) {
    ccl::allreduce(send, recv, task->count, type, reduction, *world).wait();
  } else if (is(task, "reduce_scatter")) {
    ccl::reduce_scatter(send, recv, task->count, type, reduction, *world).wait();
  } else if (is(task, "all_gather") || is(task, "all_gather_v")) {
    ccl::allgatherv(send, static_cast<std::size_t>(task->sends[0]), recv, sizes(task->receives), type, *world).wait();
  } else if (is(task, "all_to_all")) {
    ccl::alltoall(send, recv, task->count, type, *world).wait();
  } else if (is(task, "all_to_all_v")) {
    ccl::alltoallv(send, sizes(task->sends), recv, sizes(task->receives), type, *world).wait();
  } else if (is(task, "broadcast")) {
    ccl::broadcast(recv, task->count, type, task->root, *world).wait();
  } else if (is(task, "reduce")) {
    ccl::reduce(send, recv, task->count, type, reduction, task->root, *world).wait();
  } else {
    ccl::barrier(*world).wait();
  }
}

void peerSettle(const Task*) {}

void peerEnd(void) { world.reset(); }

}  // extern "C"
