// Communicators follow the segments of the pools that are registered with them.

#include "memory/segment_listener.hpp"

#include <map>
#include <thread>

#include "heap_fixture.hpp"
#include "memory/segment_set.hpp"

namespace symccl {
namespace {

class Recorder : public SegmentListener {
 public:
  void segmentAdded(Heap& heap, std::size_t offset, std::size_t bytes) override {
    EXPECT_TRUE(segments.emplace(heap.base() + offset, bytes).second);
  }
  void segmentRemoved(Heap& heap, std::size_t offset, std::size_t bytes) override {
    const auto at = segments.find(heap.base() + offset);
    ASSERT_NE(at, segments.end());
    EXPECT_EQ(at->second, bytes);
    segments.erase(at);
  }
  std::map<void*, std::size_t> segments;
};

std::map<void*, std::size_t> segmentsOf(const Pool& pool) {
  std::map<void*, std::size_t> segments;
  for (const auto& segment : pool.snapshot()) segments.emplace(segment.address, segment.bytes);
  return segments;
}

TEST(SegmentListener, FollowsThePool) {
  const auto pool = *Pool::create(39), other = *Pool::create(39);
  void* early = *pool->allocate(100);
  Recorder recorder;
  EXPECT_TRUE(attachListener(*pool, recorder));
  EXPECT_EQ(recorder.segments, segmentsOf(*pool)) << "those that were there before";
  EXPECT_EQ(recorder.segments.size(), 1u);
  EXPECT_FALSE(attachListener(*pool, recorder)) << "twice";

  void* late = *pool->allocate(12 * kMebibyte);
  ASSERT_TRUE(other->allocate(100));
  EXPECT_EQ(recorder.segments, segmentsOf(*pool)) << "one that came later, none of another pool";
  EXPECT_EQ(recorder.segments.size(), 2u);
  pool->free(late);
  EXPECT_EQ(recorder.segments.size(), 2u) << "a free returns a block only";
  pool->trim();
  EXPECT_EQ(recorder.segments, segmentsOf(*pool));
  EXPECT_EQ(recorder.segments.size(), 1u);

  EXPECT_TRUE(detachListener(*pool, recorder));
  EXPECT_TRUE(recorder.segments.empty());
  EXPECT_FALSE(detachListener(*pool, recorder)) << "twice";
  ASSERT_TRUE(pool->allocate(12 * kMebibyte));
  EXPECT_TRUE(recorder.segments.empty());
  pool->free(early);
}

TEST(SegmentListener, SeveralAtOnce) {
  const auto pool = *Pool::create(46);
  Recorder one, two;
  attachListener(*pool, one);
  void* block = *pool->allocate(100);
  attachListener(*pool, two);
  EXPECT_EQ(one.segments, two.segments);
  detachListener(*pool, one);
  EXPECT_EQ(two.segments.size(), 1u);
  pool->free(block);
  pool->trim();
  EXPECT_TRUE(two.segments.empty());
  detachListener(*pool, two);
}

TEST(SegmentListener, ADeadPoolIsRegisteredNowhere) {
  auto pool = *Pool::create(47);
  Recorder recorder;
  attachListener(*pool, recorder);
  void* block = *pool->allocate(100);
  ASSERT_TRUE(pool->allocate(3 * kMebibyte));
  EXPECT_EQ(recorder.segments.size(), 2u);
  pool.reset();
  EXPECT_TRUE(recorder.segments.empty());
  Pool::freeAnywhere(block);
  EXPECT_TRUE(recorder.segments.empty());
}

TEST(SegmentListener, HearsOfSegmentsThatAnotherPoolNeeds) {
  const auto pool = *Pool::create(48), needy = *Pool::create(48);
  Recorder recorder;
  attachListener(*pool, recorder);
  pool->free(*pool->allocate(200 * kMebibyte));
  EXPECT_EQ(recorder.segments.size(), 1u);
  ASSERT_TRUE(needy->allocate(100 * kMebibyte));
  EXPECT_TRUE(recorder.segments.empty());
  detachListener(*pool, recorder);
}

}  // namespace
}  // namespace symccl
