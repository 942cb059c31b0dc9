#include "comm/joining.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "base/checks.hpp"
#include "base/fork.hpp"

namespace symccl {

namespace {

constexpr std::chrono::milliseconds kSlice{50};
constexpr std::chrono::milliseconds kLook{0};
// Entries of other ranks that are looked for while one is waited for.
constexpr int kLooksPerSlice = 8;

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

}  // namespace

// --- the meeting --------------------------------------------------------------------------------------------------

// Keys of a store are never used twice.
Meeting Meeting::next(Store& store, const std::string& name, int rank) {
  static auto& mutex = *new ForkSafeMutex;
  static auto& counts = *new std::map<std::pair<std::string, int>, std::uint64_t>;
  std::lock_guard lock(mutex);
  return Meeting(store, text("symccl/", name, "/", ++counts[{name, rank}], "/"), rank);
}

void Meeting::tellFailure(const Error& error) const {
  if (!failure()) return;
  WireWriter out;
  out.u32(static_cast<std::uint32_t>(rank_)).u8(static_cast<std::uint8_t>(error.code()));
  out.u32(static_cast<std::uint32_t>(error.rank() + 1)).string(error.message());
  // Without a store there is nobody to tell.
  (void)store_.set(key("failed"), out.take());
}

Status Meeting::failure() const {
  const Result<Bytes> said = store_.get(key("failed"), kLook);
  if (!said) return {};
  WireReader in(*said);
  const auto origin = static_cast<int>(in.u32());
  const std::uint8_t code = in.u8();
  const int culprit = static_cast<int>(in.u32()) - 1;
  const std::string message = in.string();
  if (!in.complete() || code > static_cast<std::uint8_t>(Code::internal)) return {};
  return Error(static_cast<Code>(code), text("rank ", origin, " failed: ", message), culprit >= 0 ? culprit : origin);
}

// --- entries ------------------------------------------------------------------------------------------------------

Joining::Joining(const Meeting& meeting, int size, Deadline deadline)
    : meeting_(meeting),
      rank_(meeting.rank()),
      size_(size),
      deadline_(deadline),
      members_(static_cast<std::size_t>(size)) {}

Result<Uuid> Joining::agreeOnEpoch() {
  const std::string key = meeting_.key("epoch");
  if (rank_ == 0) {
    const Uuid epoch = randomUuid();
    if (Status status = meeting_.store().set(key, WireWriter().uuid(epoch).take()); !status) return status.error();
    return epoch;
  }
  Result<Bytes> value = awaitKey(key, {0});
  if (!value) return value.error();
  WireReader reader(*value);
  const Uuid epoch = reader.uuid();
  if (!reader.complete()) return Error(Code::corrupt, "the store holds a malformed epoch", 0);
  return epoch;
}

Status Joining::publish(const MemberEntry& own) {
  member(rank_).entry = own;
  member(rank_).known = true;
  return meeting_.store().set(meeting_.key(rank_), own.write());
}

Status Joining::collect(const MemberEntry& own) {
  for (int rank = 0; rank < size_; ++rank) {
    if (member(rank).known) continue;
    Result<Bytes> value = awaitKey(meeting_.key(rank), {});
    if (!value) return value.error();
    if (Status status = accept(rank, *value); !status) return status;
  }
  std::vector<int> elsewhere;
  for (int rank = 0; rank < size_; ++rank) {
    if (member(rank).entry.process.host != own.process.host) elsewhere.push_back(rank);
  }
  if (elsewhere.empty()) return {};
  return Error(
      Code::unsupported,
      text(ranksText(elsewhere), elsewhere.size() == 1 ? " is" : " are", " on another host than rank ", rank_,
           " (or in another network namespace, or SYMCCL_HOST_ID differs), and this build has no network engine to "
           "reach them"),
      elsewhere.front());
}

Status Joining::accept(int rank, const Bytes& bytes) {
  Result<MemberEntry> entry = MemberEntry::read(bytes, rank);
  if (!entry) return entry.error();
  member(rank).entry = std::move(*entry);
  member(rank).known = true;
  return compare(member(rank).entry, rank);
}

Status Joining::compare(const MemberEntry& entry, int rank) const {
  const MemberEntry& own = member(rank_).entry;
  if (entry.layout != own.layout)
    return Error(Code::invalid, text("rank ", rank, " runs another version of SymCCL than rank ", rank_), rank);
  if (entry.size != own.size) {
    return Error(Code::invalid,
                 text("rank ", rank, " creates it with ", entry.size, " ranks, rank ", rank_, " with ", own.size),
                 rank);
  }
  if (entry.settings != own.settings) {
    return Error(Code::invalid,
                 text("rank ", rank, " has other settings than rank ", rank_,
                      "; they must be equal on all ranks: ", entry.settings, " there, ", own.settings, " here"),
                 rank);
  }
  return {};
}

// `owners`: who sets the key; empty: the ranks whose entries are not there.
Result<Bytes> Joining::awaitKey(const std::string& key, const std::vector<int>& owners) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_.left());
    Result<Bytes> value = meeting_.store().get(key, std::clamp(left, std::chrono::milliseconds(1), kSlice));
    if (value || value.error().code() != Code::timeout) return value;
    if (Status status = lookAround(); !status) return status.error();
    if (Status status = interrupted(); !status) return status.error();
    if (!deadline_.passed()) continue;
    const std::vector<int> who = owners.empty() ? missing() : owners;
    return Error(Code::timeout, text("timed out: ", ranksText(who), " did not come"), who.empty() ? -1 : who.front());
  }
}

// Takes entries that are there while others are waited for: whoever has come may die meanwhile, or not fit.
Status Joining::lookAround() {
  if (!member(rank_).known) return {};  // entries come after the epoch
  for (int looks = 0, steps = 0; looks < kLooksPerSlice && steps < size_; ++steps) {
    cursor_ = (cursor_ + 1) % size_;
    if (member(cursor_).known) continue;
    ++looks;
    Result<Bytes> value = meeting_.store().get(meeting_.key(cursor_), kLook);
    if (!value) continue;
    if (Status status = accept(cursor_, *value); !status) return status;
  }
  return {};
}

std::vector<int> Joining::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (!member(rank).known && !meeting_.store().get(meeting_.key(rank), kLook)) ranks.push_back(rank);
  }
  return ranks;
}

// --- what ends a wait early ---------------------------------------------------------------------------------------

// A member that fails says so before it exits: looked at afterwards, its word is there.
Status Joining::interrupted() const {
  const Status gone = goneMember();
  const Status said = meeting_.failure();
  return said ? gone : said;
}

Status Joining::goneMember() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && stateOf(rank) == " is gone") return Error(Code::dead, describe(rank, " is gone"), rank);
  }
  return {};
}

// As stateText(); empty where nothing is known.
std::string Joining::stateOf(int rank) const {
  const auto& [known, entry, peer] = member(rank);
  if (!known) return {};
  return stateText(pidHereOf(entry.process, member(rank_).entry.process), peer != nullptr && peer->gone().load());
}

std::string Joining::describe(int rank, const std::string& state) const {
  const ProcessEntry& process = member(rank).entry.process;
  return text("rank ", rank, " (", pidText(process, pidHereOf(process, member(rank_).entry.process)), ")", state);
}

// --- links --------------------------------------------------------------------------------------------------------

Result<std::vector<MemberPlace>> Joining::linkAll(Heap& heap) {
  Result<Links*> links = Links::instance();
  if (!links) return links.error();
  std::vector<MemberPlace> places;
  for (int rank = 0; rank < size_; ++rank) {
    Result<MemberPlace> place = link(**links, heap, rank);
    if (!place) {
      const Status said = meeting_.failure();  // it may have failed, and then exited
      return said ? blame(place.error(), rank) : said.error();
    }
    places.push_back(*place);
  }
  return places;
}

Result<MemberPlace> Joining::link(Links& links, Heap& heap, int rank) {
  const auto asked = [this] { return interrupted(); };
  const MemberEntry& entry = member(rank).entry;
  Result<Peer*> peer = links.reach(entry.process, deadline_, asked);
  if (!peer) return peer.error();
  member(rank).peer = *peer;
  Result<Links::Mapping> mapping = links.exchangeHeaps(**peer, heap, entry.heap, deadline_, asked);
  if (!mapping) return mapping.error();
  const std::size_t area = AreaLayout(size_).bytes;
  if (mapping->bytes != entry.heapBytes || area > mapping->bytes || entry.areaOffset > mapping->bytes - area)
    return Error(Code::corrupt, "it published an area outside its heap", rank);
  return MemberPlace{*peer, mapping->base, mapping->bytes, mapping->mapped, mapping->symmetric, entry.areaOffset};
}

// In the name of the link to `rank`, but for errors that name a rank already. A rank that keeps this one waiting may do
// so because it waits for another, which is stopped.
Error Joining::blame(const Error& error, int rank) const {
  if (error.rank() >= 0) return error;
  if (error.code() == Code::dead) return Error(Code::dead, describe(rank, " is gone"), rank);
  std::string stopped;
  int culprit = rank;
  for (int other = 0; error.code() == Code::timeout && other < size_; ++other) {
    if (other == rank_ || stateOf(other) != " is stopped") continue;
    if (stopped.empty()) culprit = other;
    stopped += (stopped.empty() ? "; " : ", ") + describe(other, " is stopped");
  }
  return Error(error.code(), text("rank ", rank, ": ", error.message(), stopped), culprit);
}

// --- what follows from the entries --------------------------------------------------------------------------------

bool Joining::fences() const {
  return !std::all_of(members_.begin(), members_.end(), [](const Member& each) { return each.entry.membarrier; });
}

bool Joining::yields() const {
  return std::all_of(members_.begin(), members_.end(), [&](const Member& each) {
    return each.entry.schedulingGroup == members_.front().entry.schedulingGroup;
  });
}

// Together the members may run on the union of their masks; quotas are mostly one cgroup's.
int Joining::cpus() const {
  std::string together;
  int quota = std::numeric_limits<int>::max();
  for (const auto& [known, entry, peer] : members_) {
    together.resize(std::max(together.size(), entry.affinity.size()));
    for (std::size_t byte = 0; byte < entry.affinity.size(); ++byte) together[byte] |= entry.affinity[byte];
    if (entry.cpus < bitsIn(entry.affinity)) quota = std::min(quota, entry.cpus);
  }
  return std::max(std::min(quota, bitsIn(together)), 1);
}

}  // namespace symccl
