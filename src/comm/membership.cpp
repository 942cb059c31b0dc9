#include "comm/membership.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <mutex>

#include "base/barrier.hpp"
#include "base/checks.hpp"
#include "base/environment.hpp"

namespace symccl {

namespace {

constexpr std::chrono::milliseconds kSlice{50};

std::uint64_t hashText(const std::string& value) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (unsigned char byte : value) hash = (hash ^ byte) * 0x100000001b3ull;
  return hash;
}

// Ranks that plan differently would wait for each other for ever, so what plans depend on is compared.
std::uint64_t settingsHash() { return hashText("path=" + environment().path); }

// How often a rank of this process has created a communicator of this name: keys of a store are never used twice.
std::uint64_t nextGeneration(const std::string& name, int rank) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, std::uint64_t> counts;
  std::lock_guard lock(mutex);
  return ++counts[{name, rank}];
}

std::string ownAffinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return {};
  return {reinterpret_cast<const char*>(&set), sizeof(set)};
}

int bitsIn(const std::string& mask) {
  int bits = 0;
  for (unsigned char byte : mask) bits += std::popcount(byte);
  return bits;
}

std::string ranksText(const std::vector<int>& ranks) {
  std::string all = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) all += text(i == 0 ? "" : ", ", ranks[i]);
  return all;
}

class Joining {
 public:
  Joining(Store& store, std::string prefix, int rank, int size, Deadline deadline)
      : store_(store), prefix_(std::move(prefix)), rank_(rank), size_(size), deadline_(deadline) {
    entries_.resize(static_cast<std::size_t>(size));
    peers_.resize(static_cast<std::size_t>(size), nullptr);
  }

  // Rank 0 chooses the epoch, which keeps this instance apart from any other.
  Result<Uuid> agreeOnEpoch() {
    const std::string key = prefix_ + "epoch";
    if (rank_ == 0) {
      const Uuid epoch = randomUuid();
      if (Status status = store_.set(key, WireWriter().uuid(epoch).take()); !status) return status.error();
      return epoch;
    }
    Result<Bytes> value = waitForKey(key, {0});
    if (!value) return value.error();
    WireReader reader(*value);
    const Uuid epoch = reader.uuid();
    if (!reader.complete()) return Error(Code::corrupt, "the store holds a malformed epoch", 0);
    return epoch;
  }

  Status publish(const MemberEntry& own) { return store_.set(prefix_ + std::to_string(rank_), own.write()); }

  Status collect(const MemberEntry& own) {
    for (int rank = 0; rank < size_; ++rank) {
      MemberEntry& entry = entries_[static_cast<std::size_t>(rank)];
      if (rank == rank_) {
        entry = own;
        continue;
      }
      Result<Bytes> value = waitForKey(prefix_ + std::to_string(rank), {});
      if (!value) return value.error();
      Result<MemberEntry> read = MemberEntry::read(*value, rank);
      if (!read) return read.error();
      entry = std::move(*read);
      if (Status status = compare(own, entry, rank); !status) return status;
    }
    std::vector<int> elsewhere;
    for (int rank = 0; rank < size_; ++rank) {
      if (entries_[static_cast<std::size_t>(rank)].process.host != own.process.host) elsewhere.push_back(rank);
    }
    if (elsewhere.empty()) return {};
    return Error(
        Code::unsupported,
        text(ranksText(elsewhere), elsewhere.size() == 1 ? " is" : " are", " on another host than rank ", rank_,
             " (or in another network namespace, or SYMCCL_HOST_ID differs), and this build has no network engine to "
             "reach them"),
        elsewhere.front());
  }

  Result<std::vector<MemberPlace>> linkAll(Heap& heap) {
    Result<Links*> links = Links::instance();
    if (!links) return links.error();
    const auto interrupted = [this] { return deadMember(); };
    std::vector<MemberPlace> places;
    for (int rank = 0; rank < size_; ++rank) {
      const MemberEntry& entry = entries_[static_cast<std::size_t>(rank)];
      Result<Peer*> peer = (*links)->reach(entry.process, deadline_, interrupted);
      if (!peer) return blame(peer.error(), rank);
      peers_[static_cast<std::size_t>(rank)] = *peer;
      Result<Links::Mapping> mapping = (*links)->exchangeHeaps(**peer, heap, entry.heap, deadline_, interrupted);
      if (!mapping) return blame(mapping.error(), rank);
      const std::size_t area = AreaLayout(size_).bytes;
      if (mapping->bytes != entry.heapBytes || area > mapping->bytes || entry.areaOffset > mapping->bytes - area) {
        return Error(Code::corrupt, text("rank ", rank, " published an area outside its heap"), rank);
      }
      places.push_back({*peer, mapping->base, mapping->bytes, mapping->mapped, mapping->symmetric, entry.areaOffset});
    }
    return places;
  }

  bool fences() const {
    return !std::all_of(entries_.begin(), entries_.end(), [](const MemberEntry& entry) { return entry.membarrier; });
  }
  // CPUs that the members share: together they may run on the union of their masks; quotas are mostly one cgroup's.
  int cpus() const {
    std::string together;
    int quota = std::numeric_limits<int>::max();
    for (const MemberEntry& entry : entries_) {
      together.resize(std::max(together.size(), entry.affinity.size()));
      for (std::size_t byte = 0; byte < entry.affinity.size(); ++byte) together[byte] |= entry.affinity[byte];
      if (entry.cpus < bitsIn(entry.affinity)) quota = std::min(quota, entry.cpus);
    }
    return std::max(std::min(quota, bitsIn(together)), 1);
  }

 private:
  Error blame(const Error& error, int rank) const {
    return Error(error.code(), text("rank ", rank, ": ", error.message()), rank);
  }

  // A member that is linked and dies ends the creation at once.
  Status deadMember() const {
    for (int rank = 0; rank < size_; ++rank) {
      const Peer* peer = peers_[static_cast<std::size_t>(rank)];
      if (peer != nullptr && peer->gone().load(std::memory_order_acquire))
        return Error(Code::dead, peer->describe(rank), rank);
    }
    return {};
  }

  // Waits in slices, so that a death or the deadline ends it; names the ranks whose entries are not there.
  Result<Bytes> waitForKey(const std::string& key, std::vector<int> owners) {
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_.left());
      Result<Bytes> value = store_.get(key, std::clamp(left, std::chrono::milliseconds(1), kSlice));
      if (value || value.error().code() != Code::timeout) return value;
      if (Status status = deadMember(); !status) return status.error();
      if (!deadline_.passed()) continue;
      if (owners.empty()) owners = missing();
      return Error(Code::timeout, text("timed out: ", ranksText(owners), " did not come"),
                   owners.empty() ? -1 : owners.front());
    }
  }

  std::vector<int> missing() {
    std::vector<int> ranks;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_ && !store_.get(prefix_ + std::to_string(rank), std::chrono::milliseconds(1)))
        ranks.push_back(rank);
    }
    return ranks;
  }

  Status compare(const MemberEntry& own, const MemberEntry& entry, int rank) const {
    if (entry.layout != own.layout)
      return Error(Code::invalid, text("rank ", rank, " runs another version of SymCCL than rank ", rank_), rank);
    if (entry.settings != own.settings) {
      return Error(Code::invalid,
                   text("rank ", rank, " has another SYMCCL_PATH than rank ", rank_, "; it must be equal on all ranks"),
                   rank);
    }
    return {};
  }

  Store& store_;
  const std::string prefix_;
  const int rank_, size_;
  const Deadline deadline_;
  std::vector<MemberEntry> entries_;
  std::vector<Peer*> peers_;
};

}  // namespace

Bytes MemberEntry::write() const {
  WireWriter out;
  process.write(out);
  out.uuid(heap).u32(static_cast<std::uint32_t>(ordinal)).u64(heapBytes).u64(areaOffset).u64(layout).u64(settings);
  out.u8(membarrier ? 1 : 0).string(affinity).u32(static_cast<std::uint32_t>(cpus));
  return out.take();
}

Result<MemberEntry> MemberEntry::read(const Bytes& bytes, int rank) {
  WireReader in(bytes);
  MemberEntry entry;
  entry.process = ProcessEntry::read(in);
  entry.heap = in.uuid();
  entry.ordinal = static_cast<int>(in.u32());
  entry.heapBytes = in.u64();
  entry.areaOffset = in.u64();
  entry.layout = in.u64();
  entry.settings = in.u64();
  entry.membarrier = in.u8() != 0;
  entry.affinity = in.string();
  entry.cpus = static_cast<int>(in.u32());
  if (!in.complete() || entry.ordinal < 0 || entry.ordinal >= kDevices) {
    return Error(Code::corrupt,
                 text("the store's entry of rank ", rank, " is malformed, or of another version of SymCCL"), rank);
  }
  return entry;
}

Result<MemberEntry> ownEntry(const Heap& heap, std::size_t areaOffset) {
  Result<Links*> links = Links::instance();
  if (!links) return links.error();
  MemberEntry entry;
  entry.process = (*links)->self();
  entry.heap = heap.id();
  entry.ordinal = heap.ordinal();
  entry.heapBytes = heap.bytes();
  entry.areaOffset = areaOffset;
  entry.layout = kAreaLayout;
  entry.settings = settingsHash();
  entry.membarrier = membarrierRegistered();
  entry.affinity = ownAffinity();
  entry.cpus = availableCpus();
  return entry;
}

namespace {

Result<std::unique_ptr<Group>> joinOrFail(Store& store, const std::string& name, int rank, int size, Heap& heap,
                                          std::size_t areaOffset, Deadline deadline) {
  Result<MemberEntry> own = ownEntry(heap, areaOffset);
  if (!own) return own.error();
  const std::string prefix = text("symccl/", name, "/", nextGeneration(name, rank), "/");
  Joining joining(store, prefix, rank, size, deadline);
  Result<Uuid> epoch = joining.agreeOnEpoch();
  if (!epoch) return epoch.error();
  ControlArea(heap.base() + areaOffset, size).front().header.write(*epoch, rank, size, AreaLayout(size).bytes);
  if (Status status = joining.publish(*own); !status) return status.error();
  if (Status status = joining.collect(*own); !status) return status.error();
  Result<std::vector<MemberPlace>> places = joining.linkAll(heap);
  if (!places) return places.error();
  for (int peer = 0; peer < size; ++peer) {
    const MemberPlace& place = (*places)[static_cast<std::size_t>(peer)];
    if (!ControlArea(place.heapBase + place.areaOffset, size).front().header.shows(*epoch)) {
      return Error(Code::corrupt, text("rank ", peer, "'s control area is not of this communicator"), peer);
    }
  }
  Group::Identity identity{name, rank, size, *epoch, joining.fences(), joining.cpus()};
  return std::make_unique<Group>(std::move(identity), heap, std::move(*places));
}

}  // namespace

Result<std::unique_ptr<Group>> join(Store& store, const std::string& name, int rank, int size, Heap& heap,
                                    std::size_t areaOffset, Deadline deadline) {
  Result<std::unique_ptr<Group>> group = joinOrFail(store, name, rank, size, heap, areaOffset, deadline);
  if (group) return group;
  withdraw(ControlArea(heap.base() + areaOffset, size), rank, group.error());
  return group.error();
}

void withdraw(const ControlArea& area, int rank, const Error& error) {
  ErrorWords& words = area.front().collective.errors;
  words.quiet.put(1);
  words.error.publish(Failure{error.code(), rank, error.rank()}.pack());
}

std::unique_ptr<Group> aloneGroup(const std::string& name, Heap& heap, std::size_t areaOffset) {
  static Peer& self = *new Peer(ProcessEntry{}, true, 0);
  MemberPlace place{&self, heap.base(), heap.bytes(), nullptr, heap.symmetric(), areaOffset};
  Group::Identity identity{name, 0, 1, randomUuid(), false, 1};
  return std::make_unique<Group>(std::move(identity), heap, std::vector<MemberPlace>{place});
}

std::unique_ptr<Group> subgroup(const Group& parent, const std::string& name, const Uuid& epoch, int rank,
                                const std::vector<int>& ranks, const std::vector<std::size_t>& areas) {
  std::vector<MemberPlace> places;
  for (std::size_t member = 0; member < ranks.size(); ++member) {
    places.push_back(parent.place(ranks[member]));
    places.back().areaOffset = areas[member];
  }
  Group::Identity identity{
      name, rank, static_cast<int>(ranks.size()), epoch, parent.identity().fences, parent.identity().cpus};
  return std::make_unique<Group>(std::move(identity), parent.heap(), std::move(places));
}

}  // namespace symccl
