#include "comm/membership.hpp"

#include <sched.h>

#include "base/barrier.hpp"
#include "base/checks.hpp"
#include "base/environment.hpp"
#include "comm/joining.hpp"

namespace symccl {

namespace {

std::uint64_t hashText(const std::string& value) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (unsigned char byte : value) hash = (hash ^ byte) * 0x100000001b3ull;
  return hash;
}

// Ranks that plan differently would wait for each other for ever, so what plans depend on is compared.
std::uint64_t settingsHash() { return hashText("path=" + environment().path); }

std::string ownAffinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return {};
  return {reinterpret_cast<const char*>(&set), sizeof(set)};
}

}  // namespace

Bytes MemberEntry::write() const {
  WireWriter out;
  process.write(out);
  out.u32(static_cast<std::uint32_t>(size))
      .uuid(heap)
      .u32(static_cast<std::uint32_t>(ordinal))
      .u64(heapBytes)
      .u64(areaOffset)
      .u64(layout)
      .u64(settings);
  out.u8(membarrier ? 1 : 0).string(affinity).u32(static_cast<std::uint32_t>(cpus)).string(schedulingGroup);
  return out.take();
}

Result<MemberEntry> MemberEntry::read(const Bytes& bytes, int rank) {
  WireReader in(bytes);
  MemberEntry entry;
  entry.process = ProcessEntry::read(in);
  entry.size = static_cast<int>(in.u32());
  entry.heap = in.uuid();
  entry.ordinal = static_cast<int>(in.u32());
  entry.heapBytes = in.u64();
  entry.areaOffset = in.u64();
  entry.layout = in.u64();
  entry.settings = in.u64();
  entry.membarrier = in.u8() != 0;
  entry.affinity = in.string();
  entry.cpus = static_cast<int>(in.u32());
  entry.schedulingGroup = in.string(512);
  if (!in.complete() || entry.ordinal < 0 || entry.ordinal >= kDevices) {
    return Error(Code::corrupt,
                 text("the store's entry of rank ", rank, " is malformed, or of another version of SymCCL"), rank);
  }
  return entry;
}

Result<MemberEntry> ownEntry(int size, const Heap& heap, std::size_t areaOffset) {
  Result<Links*> links = Links::instance();
  if (!links) return links.error();
  MemberEntry entry;
  entry.process = (*links)->self();
  entry.size = size;
  entry.heap = heap.id();
  entry.ordinal = heap.ordinal();
  entry.heapBytes = heap.bytes();
  entry.areaOffset = areaOffset;
  entry.layout = kAreaLayout;
  entry.settings = settingsHash();
  entry.membarrier = membarrierRegistered();
  entry.affinity = ownAffinity();
  entry.cpus = availableCpus();
  entry.schedulingGroup = schedulingGroup();
  return entry;
}

namespace {

Result<std::unique_ptr<Group>> joinOrFail(const Meeting& meeting, const std::string& name, int size, Heap& heap,
                                          std::size_t areaOffset, Deadline deadline) {
  Result<MemberEntry> own = ownEntry(size, heap, areaOffset);
  if (!own) return own.error();
  Joining joining(meeting, size, deadline);
  Result<Uuid> epoch = joining.agreeOnEpoch();
  if (!epoch) return epoch.error();
  const int rank = meeting.rank();
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
  Group::Identity identity{name, rank, size, *epoch, joining.fences(), joining.cpus(), joining.yields()};
  auto group = std::make_unique<Group>(std::move(identity), heap, std::move(*places));
  // Nobody returns before all are linked: what fails one fails all, and who then exits is missed by nobody.
  group->step();
  if (Status status = group->awaitSteps(group->steps(), {"creation", 0}, deadline); !status) {
    const Status said = meeting.failure();
    return said ? status.error() : said.error();
  }
  return group;
}

}  // namespace

Result<std::unique_ptr<Group>> join(const Meeting& meeting, const std::string& name, int size, Heap& heap,
                                    std::size_t areaOffset, Deadline deadline) {
  Result<std::unique_ptr<Group>> group = joinOrFail(meeting, name, size, heap, areaOffset, deadline);
  if (!group) withdraw(ControlArea(heap.base() + areaOffset, size), meeting.rank(), group.error());
  return group;
}

void withdraw(const ControlArea& area, int rank, const Error& error) {
  ErrorWords& words = area.front().collective.errors;
  words.quiet.put(1);
  words.error.publish(Failure{error.code(), rank, error.rank()}.pack());
}

std::unique_ptr<Group> aloneGroup(const std::string& name, Heap& heap, std::size_t areaOffset) {
  static Peer& self = *new Peer(ProcessEntry{}, true, 0);
  MemberPlace place{&self, heap.base(), heap.bytes(), nullptr, heap.symmetric(), areaOffset};
  Group::Identity identity{name, 0, 1, randomUuid()};
  return std::make_unique<Group>(std::move(identity), heap, std::vector<MemberPlace>{place});
}

std::unique_ptr<Group> subgroup(const Group& parent, const std::string& name, const Uuid& epoch, int rank,
                                const std::vector<int>& ranks, const std::vector<std::size_t>& areas) {
  std::vector<MemberPlace> places;
  for (std::size_t member = 0; member < ranks.size(); ++member) {
    places.push_back(parent.place(ranks[member]));
    places.back().areaOffset = areas[member];
  }
  Group::Identity identity = parent.identity();
  identity.name = name;
  identity.rank = rank;
  identity.size = static_cast<int>(ranks.size());
  identity.epoch = epoch;
  return std::make_unique<Group>(std::move(identity), parent.heap(), std::move(places));
}

}  // namespace symccl
