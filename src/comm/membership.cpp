#include "comm/membership.hpp"

#include <sched.h>

#include "base/barrier.hpp"
#include "base/checks.hpp"
#include "base/environment.hpp"
#include "comm/joining.hpp"

namespace symccl {

namespace {

// Ranks that plan differently would wait for each other for ever, so what plans depend on is compared.
std::string settingsText(const CommunicatorOptions& options) {
  const Environment& said = environment();
  std::string all = "SYMCCL_PATH " + said.path;
  if (!options.algorithm.empty()) return all + ", algorithm '" + options.algorithm + "'";
  if (!said.algorithm.empty()) all += ", HCCL_ALGO '" + said.algorithm + "'";
  if (said.ringThreshold) all += text(", HCCL_RING_THRESHOLD ", *said.ringThreshold);
  if (said.treeThreshold) all += text(", HCCL_TREE_THRESHOLD ", *said.treeThreshold);
  return all;
}

void write(WireWriter& out, const CostModel& costs) {
  out.u64(costs.handoff).u64(costs.streamToPeers);
  for (const CostModel::Rates& rate : costs.rates)
    out.u64(rate.copied).u64(rate.pushed).u64(rate.pulled).u64(rate.read).u64(rate.readPeer);
}

CostModel readCosts(WireReader& in) {
  CostModel costs;
  costs.handoff = in.u64();
  costs.streamToPeers = in.u64();
  for (CostModel::Rates& rate : costs.rates) {
    for (std::uint64_t CostModel::Rates::* each :
         {&CostModel::Rates::copied, &CostModel::Rates::pushed, &CostModel::Rates::pulled, &CostModel::Rates::read,
          &CostModel::Rates::readPeer})
      rate.*each = in.u64();
  }
  return costs;
}

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
      .string(settings);
  symccl::write(out, costs);
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
  entry.settings = in.string();
  entry.costs = readCosts(in);
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

Result<PlanRules> askedRules(const CommunicatorOptions& options) {
  PlanRules rules;
  rules.stagedOnly = environment().path == "staged";
  const bool own = !options.algorithm.empty();
  Result<Choice> choice = Choice::parse(own ? options.algorithm : environment().algorithm);
  if (!choice) return choice.error().in(own ? "the option algorithm" : "the variable HCCL_ALGO");
  rules.choice = *choice;
  if (own) return rules;
  rules.ringThreshold = environment().ringThreshold;
  rules.treeThreshold = environment().treeThreshold;
  return rules;
}

Result<MemberEntry> ownEntry(int size, const Heap& heap, std::size_t areaOffset, std::string settings) {
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
  entry.settings = std::move(settings);
  entry.membarrier = membarrierRegistered();
  entry.affinity = ownAffinity();
  entry.cpus = availableCpus();
  entry.schedulingGroup = schedulingGroup();
  return entry;
}

namespace {

Result<std::unique_ptr<Group>> joinOrFail(const Meeting& meeting, const CommunicatorOptions& options, int size,
                                          Heap& heap, std::size_t areaOffset, Deadline deadline, PlanRules& rules) {
  Result<MemberEntry> own = ownEntry(size, heap, areaOffset, settingsText(options));
  if (!own) return own.error();
  if (meeting.rank() == 0) own->costs = rules.costs;
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
  rules.cpus = joining.cpus();
  rules.costs = joining.costs();
  Group::Identity identity{options.name, rank, size, *epoch, joining.fences(), joining.cpus(), joining.yields()};
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

Result<std::unique_ptr<Group>> join(const Meeting& meeting, const CommunicatorOptions& options, int size, Heap& heap,
                                    std::size_t areaOffset, Deadline deadline, PlanRules& rules) {
  Result<std::unique_ptr<Group>> group = joinOrFail(meeting, options, size, heap, areaOffset, deadline, rules);
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
