#include <thread>

#include "cast.hpp"
#include "memory/heap.hpp"

namespace symccl::testing_links {
namespace {

constexpr std::size_t kWords = 3 * 65537;

std::uint64_t expected(int owner, std::size_t index) {
  return (static_cast<std::uint64_t>(owner + 1) << 40) + index * 7919;
}

/// A segment in the heap of `ordinal`, filled so that every word of every owner differs.
Heap* filledHeap(int ordinal, int owner, std::size_t& offset) {
  Result<Heap*> heap = Heap::ofDevice(ordinal);
  if (!heap) {
    ADD_FAILURE() << heap.error().message();
    return nullptr;
  }
  Result<std::size_t> taken = (*heap)->reserve(kWords * 8, Backing::reserved);
  if (!taken) {
    ADD_FAILURE() << taken.error().message();
    return nullptr;
  }
  offset = *taken;
  auto* words = reinterpret_cast<std::uint64_t*>((*heap)->base() + offset);
  for (std::size_t i = 0; i < kWords; ++i) words[i] = expected(owner, i);
  return *heap;
}

/// Tells the others id and offset; they fit in three words of the stage.
void tell(Part& part, const Heap& heap, std::size_t offset) {
  const auto at = static_cast<std::size_t>(3 * part.index());
  part.stage().word[at].store(static_cast<std::int64_t>(heap.id().words[0]));
  part.stage().word[at + 1].store(static_cast<std::int64_t>(heap.id().words[1]));
  part.stage().word[at + 2].store(static_cast<std::int64_t>(offset));
}
Uuid idOf(Part& part, int other) {
  const auto at = static_cast<std::size_t>(3 * other);
  return {{static_cast<std::uint64_t>(part.stage().word[at].load()),
           static_cast<std::uint64_t>(part.stage().word[at + 1].load())}};
}
std::size_t offsetOf(Part& part, int other) {
  return static_cast<std::size_t>(part.stage().word[static_cast<std::size_t>(3 * other + 2)].load());
}

/// Everyone maps everyone's heap, reads all of it, and leaves a word there that the owner then finds.
void exchangeAll(Part& part, bool equalOrdinals) {
  std::size_t offset = 0;
  Heap* mine = filledHeap(equalOrdinals ? 5 : part.index(), part.index(), offset);
  if (!mine) return;
  tell(part, *mine, offset);
  part.publish();
  part.meet(0);
  for (int other = 0; other < part.size(); ++other) {
    if (other == part.index()) continue;
    Peer* peer = part.linked(other);
    if (!peer) return;
    Result<Links::Mapping> mapping = part.links().exchangeHeaps(*peer, *mine, idOf(part, other), late(), {});
    ASSERT_TRUE(mapping) << mapping.error().message();
    EXPECT_EQ(mapping->bytes, mine->bytes());
    EXPECT_NE(mapping->mapped, nullptr);
    EXPECT_EQ(mapping->symmetric, !equalOrdinals) << "equal ordinals cannot both stand in their window";
    if (mapping->symmetric) {
      EXPECT_EQ(mapping->base, windowAddress(other));
    }
    auto* words = reinterpret_cast<std::uint64_t*>(mapping->base + offsetOf(part, other));
    std::size_t wrong = 0;
    for (std::size_t i = static_cast<std::size_t>(part.size()); i < kWords; ++i)
      wrong += words[i] != expected(other, i);
    EXPECT_EQ(wrong, 0u);
    words[part.index()] = 1000 + static_cast<std::uint64_t>(part.index());

    Result<Links::Mapping> again = part.links().exchangeHeaps(*peer, *mine, idOf(part, other), late(), {});
    ASSERT_TRUE(again);
    EXPECT_EQ(again->base, mapping->base) << "mapped once";
  }
  part.meet(1);
  const auto* words = reinterpret_cast<std::uint64_t*>(mine->base() + offset);
  for (int other = 0; other < part.size(); ++other) {
    const auto at = static_cast<std::size_t>(other);
    EXPECT_EQ(words[at], other == part.index() ? expected(other, at) : 1000 + at);
  }
}

TEST(HeapExchange, EveryoneSeesEveryonesBytesAtTheSameAddresses) {
  perform(4, [](Part& part) { exchangeAll(part, false); });
}

TEST(HeapExchange, EqualOrdinalsAreMappedElsewhere) {
  perform(3, [](Part& part) { exchangeAll(part, true); });
}

TEST(HeapExchange, SeveralHeapsOfOneProcess) {
  perform(2, [](Part& part) {
    Peer* peer = part.linked(1 - part.index());
    ASSERT_TRUE(peer);
    std::size_t offset = 0;
    for (int k = 0; k < 3; ++k) {
      Heap* mine = filledHeap(4 * part.index() + k, part.index() + 2 * k, offset);
      ASSERT_TRUE(mine);
      tell(part, *mine, offset);
      part.meet(2 * k);
      const int other = 1 - part.index();
      Result<Links::Mapping> mapping = part.links().exchangeHeaps(*peer, *mine, idOf(part, other), late(), {});
      ASSERT_TRUE(mapping) << mapping.error().message();
      const auto* words = reinterpret_cast<std::uint64_t*>(mapping->base + offsetOf(part, other));
      EXPECT_EQ(words[kWords - 1], expected(other + 2 * k, kWords - 1));
      part.meet(2 * k + 1);
    }
  });
}

TEST(HeapExchange, ThreadsThatAskAtOnceShareOneMapping) {
  perform(2, [](Part& part) {
    Peer* peer = part.linked(1 - part.index());
    ASSERT_TRUE(peer);
    std::size_t offset = 0;
    Heap* mine = filledHeap(part.index(), part.index(), offset);
    ASSERT_TRUE(mine);
    tell(part, *mine, offset);
    part.meet(0);
    std::vector<std::thread> threads;
    std::array<std::byte*, 6> bases{};
    for (std::size_t t = 0; t < bases.size(); ++t) {
      threads.emplace_back([&, t] {
        Result<Links::Mapping> mapping =
            part.links().exchangeHeaps(*peer, *mine, idOf(part, 1 - part.index()), late(), {});
        ASSERT_TRUE(mapping) << mapping.error().message();
        bases[t] = mapping->base;
      });
    }
    for (auto& thread : threads) thread.join();
    for (const std::byte* base : bases) EXPECT_EQ(base, bases[0]);
    part.meet(1);
  });
}

TEST(HeapExchange, RanksThatAreThreads) {
  perform(1, [](Part& part) {
    Links& links = part.links();
    Result<Peer*> self = links.reach(links.self(), late(), {});
    ASSERT_TRUE(self);
    EXPECT_TRUE((*self)->self());
    EXPECT_FALSE((*self)->gone());
    Result<Heap*> first = Heap::ofDevice(0), second = Heap::ofDevice(1);
    ASSERT_TRUE(first && second);
    Result<Links::Mapping> same = links.exchangeHeaps(**self, **first, (*first)->id(), late(), {});
    ASSERT_TRUE(same);
    EXPECT_EQ(same->base, (*first)->base());
    EXPECT_EQ(same->mapped, nullptr);
    std::thread other([&] {
      Result<Links::Mapping> mapping = links.exchangeHeaps(**self, **second, (*first)->id(), late(), {});
      ASSERT_TRUE(mapping);
      EXPECT_EQ(mapping->base, (*first)->base());
    });
    Result<Links::Mapping> mapping = links.exchangeHeaps(**self, **first, (*second)->id(), late(), {});
    other.join();
    ASSERT_TRUE(mapping) << mapping.error().message();
    EXPECT_EQ(mapping->base, (*second)->base());
    Result<Links::Mapping> never =
        links.exchangeHeaps(**self, **first, randomUuid(), Deadline::in(std::chrono::milliseconds(20)), {});
    ASSERT_FALSE(never);
    EXPECT_EQ(never.error().code(), Code::timeout);
  });
}

TEST(HeapExchange, APeerThatSendsNoneIsNamed) {
  perform(2, [](Part& part) {
    Peer* peer = part.linked(1 - part.index());
    ASSERT_TRUE(peer);
    if (part.index() == 0) {
      Result<Heap*> mine = Heap::ofDevice(0);
      ASSERT_TRUE(mine);
      Result<Links::Mapping> none =
          part.links().exchangeHeaps(*peer, **mine, randomUuid(), Deadline::in(std::chrono::milliseconds(120)), {});
      ASSERT_FALSE(none);
      EXPECT_EQ(none.error().code(), Code::timeout);
      EXPECT_NE(none.error().message().find("pid " + std::to_string(part.pidOf(1)) + " is running"), std::string::npos)
          << none.error().message();
    }
    part.meet(0);
  });
}

}  // namespace
}  // namespace symccl::testing_links
