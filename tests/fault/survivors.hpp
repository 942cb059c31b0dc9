// What those who live on must find when one of them has died.
#pragma once

#include <memory>

#include "process/all_kinds.hpp"
#include "process/process_ranks.hpp"
#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {

/// A death notice that names `rank` of `process`'s test, its pid and that it is gone - and no deadline that passed.
inline void expectGone(const Status& status, const RankProcess& process, int rank) {
  ASSERT_FALSE(status) << "rank " << process.rank() << " did not notice";
  EXPECT_EQ(status.error().code(), Code::dead) << status.error().message();
  EXPECT_EQ(status.error().rank(), rank) << status.error().message();
  EXPECT_CONTAINS(status.error().message(), process.nameOf(rank) + " is gone");
}

/// After an error: every later call returns it, point to point and collective; the process can destroy the
/// communicator, and the `survivors` (in rank order) make a new one that works.
inline void expectSticky(Communicator& comm) {
  const Status first = comm.status();
  ASSERT_FALSE(first);
  float value = 1;
  const Operation sum = Operation::allReduce(&value, &value, 1, DataType::float32, ReduceOp::sum);
  for (const Status& later : {comm.run(Operation::barrier()), comm.start(sum).wait(),
                              comm.send(&value, sizeof value, 0).wait(), comm.recv(&value, sizeof value, 0).wait()}) {
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().code(), first.error().code());
    EXPECT_EQ(later.error().message(), first.error().message());
  }
}

inline void goOn(RankProcess& process, std::shared_ptr<Communicator>& comm, const std::vector<int>& survivors) {
  expectSticky(*comm);
  comm.reset();
  const auto place = std::find(survivors.begin(), survivors.end(), process.rank());
  auto fresh = Communicator::create(process.store(), static_cast<int>(place - survivors.begin()),
                                    static_cast<int>(survivors.size()), {"survivors", 60s});
  ASSERT_TRUE(fresh) << fresh.error().message();
  checkAllKinds(**fresh, nullptr, 5000, 1);
  checkAllKinds(**fresh, poolFor(**fresh, Memory::registered), 70001, 0);
}

}  // namespace symccl::test
