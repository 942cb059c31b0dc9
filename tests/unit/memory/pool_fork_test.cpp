// A forked child can use its parent's tensors, and has heaps and pools of its own.

#include <atomic>
#include <thread>

#include "heap_fixture.hpp"
#include "in_child.hpp"
#include "memory/heap_pools.hpp"
#include "memory/segment_listener.hpp"

namespace symccl {
namespace {

struct Ignorer : SegmentListener {
  void segmentAdded(Heap&, std::size_t, std::size_t) override {}
  void segmentRemoved(Heap&, std::size_t, std::size_t) override {}
};

TEST(PoolFork, TheParentsMemoryIsShared) {
  auto pool = *Pool::create(17);
  auto* block = static_cast<std::byte*>(*pool->allocate(5000));
  fillPattern(block, 5000, 15);
  EXPECT_TRUE(passesInChild([&] {
    EXPECT_TRUE(hasPattern(block, 5000, 15));
    fillPattern(block, 5000, 16);
    EXPECT_EQ(Pool::find(block + 1), pool);
    ASSERT_NE(Heap::containing(block), nullptr);
    EXPECT_TRUE(Heap::containing(block)->inherited());
  }));
  EXPECT_TRUE(hasPattern(block, 5000, 16));
  EXPECT_FALSE(heapOf(17).inherited());
}

TEST(PoolFork, FreesInTheChildDoNothing) {
  Heap& heap = heapOf(18);
  auto pool = *Pool::create(18);
  auto* block = static_cast<std::byte*>(*pool->allocate(2 * kMebibyte));
  pool->free(*pool->allocate(100));
  fillPattern(block, 2 * kMebibyte, 17);
  EXPECT_TRUE(passesInChild([&] {
    pool->free(block);
    EXPECT_TRUE(Pool::freeAnywhere(block));
    EXPECT_EQ(pool->trim(), 0u);
    EXPECT_TRUE(pool->snapshot().empty());
    EXPECT_EQ(pool->bytesInUse() + pool->bytesReserved(), 0u);
    const auto offset = static_cast<std::size_t>(block - heap.base());
    heap.discard(offset, 4096);
    heap.pin(offset, 1);
    heap.release(offset);
    heap.unpin(offset, 1);
    pool.reset();
    EXPECT_TRUE(hasPattern(block, 2 * kMebibyte, 17));
  }));
  EXPECT_TRUE(hasPattern(block, 2 * kMebibyte, 17));
  EXPECT_EQ(pool->bytesInUse(), 2 * kMebibyte);
  EXPECT_EQ(heap.report().used, 22 * kMebibyte);
}

TEST(PoolFork, AllocatingFromTheParentIsAnError) {
  const auto pool = *Pool::create(19);
  Heap& heap = heapOf(19);
  EXPECT_TRUE(passesInChild([&] {
    const auto refused = pool->allocate(100);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::forked);
    EXPECT_EQ(heap.reserve(100, Backing::sparse).error().code(), Code::forked);
    EXPECT_EQ(heap.back(0, 100).error().code(), Code::forked);
    Ignorer listener;
    EXPECT_FALSE(attachListener(*pool, listener));
    EXPECT_FALSE(detachListener(*pool, listener));
  }));
}

TEST(PoolFork, TheChildsPoolIsOnAHeapOfItsOwn) {
  const auto pool = *Pool::create(20);
  void* block = *pool->allocate(100);
  const Uuid id = heapOf(20).id();
  EXPECT_TRUE(passesInChild([&] {
    const auto own = *Pool::create(20);
    void* fresh = *own->allocate(3 * kMebibyte);
    Heap& heap = heapOf(20);
    EXPECT_FALSE(heap.inherited());
    EXPECT_NE(heap.id(), id);
    EXPECT_FALSE(heap.symmetric()) << "the parent's heap is still mapped there";
    EXPECT_EQ(Heap::containing(fresh), &heap);
    EXPECT_NE(Heap::containing(block), &heap);
    EXPECT_EQ(Pool::find(fresh), own);
    fillPattern(fresh, 3 * kMebibyte, 18);
    EXPECT_TRUE(hasPattern(fresh, 3 * kMebibyte, 18));
    own->free(fresh);
    EXPECT_EQ(own->trim(), 20 * kMebibyte);
    EXPECT_TRUE(passesInChild([&] {  // and the grandchild
      EXPECT_TRUE(heap.inherited());
      EXPECT_EQ(own->allocate(100).error().code(), Code::forked);
      EXPECT_TRUE((*Pool::create(20))->allocate(100));
    }));
  }));
}

// Keeps the thread that adds a segment, and with it the pools' lock, until let go.
struct Holder : SegmentListener {
  void segmentAdded(Heap&, std::size_t, std::size_t) override {
    held = true;
    held.notify_all();
    release.wait(false);
  }
  void segmentRemoved(Heap&, std::size_t, std::size_t) override {}
  std::atomic<bool> held{false}, release{false};
};

TEST(PoolFork, WhileAnotherThreadHoldsTheLock) {
#ifdef SYMCCL_THREAD_SANITIZER
  GTEST_SKIP() << "ThreadSanitizer itself does not support a fork of a process with threads";
#endif
  auto pool = *Pool::create(25);
  void* kept = *pool->allocate(100);
  Holder holder;
  // The present segment is reported at once: let that one pass.
  holder.release = true;
  ASSERT_TRUE(attachListener(*pool, holder));
  holder.held = holder.release = false;
  std::thread thread([&] { pool->free(*pool->allocate(2 * kMebibyte)); });
  holder.held.wait(false);
  EXPECT_TRUE(passesInChild([&] {
    EXPECT_EQ(Pool::find(kept), pool);
    EXPECT_TRUE(Pool::freeAnywhere(kept));
    EXPECT_EQ(pool->trim(), 0u);
    EXPECT_TRUE(pool->snapshot().empty());
    EXPECT_EQ(pool->bytesInUse() + pool->bytesReserved(), 0u);
    EXPECT_FALSE(pool->allocate(100));
    EXPECT_FALSE(detachListener(*pool, holder));
    EXPECT_TRUE((*Pool::create(25))->allocate(100));
    pool.reset();
  }));
  holder.release = true;
  holder.release.notify_all();
  thread.join();
  detachListener(*pool, holder);
}

// Whatever a thread of the parent does at the moment of the fork, the child finds no lock that nobody will open.
TEST(PoolFork, WhileAnotherThreadAllocates) {
#ifdef SYMCCL_THREAD_SANITIZER
  GTEST_SKIP() << "ThreadSanitizer itself does not support a fork of a process with threads";
#endif
  auto pool = *Pool::create(21);
  void* kept = *pool->allocate(100);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; !stop.load(); ++i) {
        pool->free(*pool->allocate(1 + i * 997 % (3 * kMebibyte)));
        if (i % 16 == 0) pool->trim();
        (void)Heap::ofDevice(static_cast<int>(22 + i % 3));
      }
    });
  }
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(passesInChild([&] {
      EXPECT_EQ(Pool::find(kept), pool);
      pool->free(kept);
      pool->trim();
      pool->snapshot();
      EXPECT_FALSE(pool->allocate(100));
      const auto own = Pool::create(21);
      ASSERT_TRUE(own);
      void* block = *(*own)->allocate(100);
      EXPECT_TRUE(Pool::freeAnywhere(block));
      pool.reset();
    }));
  }
  stop = true;
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace symccl
