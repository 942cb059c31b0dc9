#include "protocol/group.hpp"

#include "base/barrier.hpp"
#include "base/checks.hpp"

namespace symccl {

namespace {

constexpr std::chrono::milliseconds kQuietGrace{100};

// "destroyed at m" concerns operations after m, and messages to or from that member only.
bool countsForCollective(const WaitContext& context, int, int, std::uint64_t error, std::uint64_t operation) {
  return Failure::unpack(error).code != Code::destroyed || context.operation > operation;
}
bool countsForMessages(const WaitContext&, int member, int waitedFor, std::uint64_t error, std::uint64_t) {
  return Failure::unpack(error).code != Code::destroyed || member == waitedFor;
}

}  // namespace

void AreaHeader::write(const Uuid& instance, int ownRank, int size, std::size_t areaBytes) {
  rank.put(static_cast<std::uint64_t>(ownRank));
  members.put(static_cast<std::uint64_t>(size));
  bytes.put(areaBytes);
  layout.put(kAreaLayout);
  epoch[1].put(instance.words[1]);
  epoch[0].publish(instance.words[0]);
}

namespace {

// Members that share CPUs sleep often, and membarrier interrupts whoever runs on the others.
Group::Identity withBarrier(Group::Identity identity) {
  identity.fences = identity.fences || identity.size > identity.cpus;
  return identity;
}

}  // namespace

Group::Group(Identity identity, Heap& heap, std::vector<MemberPlace> members)
    : identity_(withBarrier(std::move(identity))), heap_(heap), members_(std::move(members)) {
  for (const MemberPlace& member : members_) {
    areas_.emplace_back(member.heapBase + member.areaOffset, size());
    AreaFront& front = areas_.back().front();
    const std::atomic<bool>* gone = &member.peer->gone();
    watchedCollective_.push_back({&front.collective.bell, &front.collective.errors, gone});
    watchedPointToPoint_.push_back({&front.pointToPoint, &front.collective.errors, gone});
  }
  for (WaitContext* context : {&collective_, &pointToPoint_}) {
    context->self = rank();
    context->fences = identity_.fences;
    context->budget = waitBudget(size(), identity_.cpus, identity_.yields);
  }
  collective_.members = watchedCollective_;
  collective_.counts = countsForCollective;
  pointToPoint_.members = watchedPointToPoint_;
  pointToPoint_.counts = countsForMessages;
}

std::string Group::describe(const std::vector<int>& members) const {
  std::string all;
  for (int member : members) all += (all.empty() ? "" : ", ") + describe(member);
  return all;
}

std::string Group::describe(const Doing& doing) const {
  return text(doing.what, " #", doing.number, " on communicator '", name(), "' (rank ", rank(), " of ", size(), ")");
}

// --- errors -------------------------------------------------------------------------------------------------------

Status Group::status() const {
  if (!failed()) return {};
  std::lock_guard lock(mutex_);
  return *error_;
}

Error Group::fail(const Error& error, int culprit, std::uint64_t operation) {
  std::lock_guard lock(mutex_);
  if (error_) return *error_;
  error_.emplace(error.code(), error.message(), culprit);
  failed_.store(true, std::memory_order_release);
  publishFailure({error.code(), rank(), culprit}, operation);
  return *error_;
}

// Rings unconditionally: because the bells move, no barrier is needed to wake sleepers.
void Group::publishFailure(const Failure& failure, std::uint64_t operation) {
  ErrorWords& words = ownArea().front().collective.errors;
  words.operation.put(operation);
  words.error.publish(failure.pack());
  for (const ControlArea& area : areas_) {
    ring(area.front().collective.bell);
    ring(area.front().pointToPoint);
  }
}

Error Group::adopt(int member, const Doing& doing) {
  const ErrorWords& words = area(member).front().collective.errors;
  const Failure failure = Failure::unpack(words.error.read());
  const std::uint64_t operation = words.operation.get();
  const bool dead = failure.code == Code::dead;
  const auto named = [&](int who) {
    return who >= 0 && who < size() ? place(who).peer->describe(who, dead) : text("rank ", who);
  };
  std::string what;
  switch (failure.code) {
    case Code::aborted:
      what = text("rank ", failure.origin, " aborted the communicator");
      break;
    case Code::destroyed:
      what = text("rank ", failure.origin, " destroyed its end of the communicator after operation #", operation);
      break;
    case Code::dead:
      what = text(named(failure.culprit), " (noticed by rank ", failure.origin, ")");
      break;
    case Code::timeout:
      what = text("rank ", failure.origin, "'s deadline passed in operation #", operation,
                  failure.culprit >= 0 ? " while it waited for " + named(failure.culprit) : "");
      break;
    default:
      what = text("rank ", failure.origin, " failed in operation #", operation, " with '", codeName(failure.code), "'",
                  failure.culprit >= 0 ? text(" because of rank ", failure.culprit) : "");
  }
  const Error error(failure.code, describe(doing) + ": " + what,
                    failure.culprit >= 0 ? failure.culprit : failure.origin);
  std::lock_guard lock(mutex_);
  if (error_) return *error_;
  error_ = error;
  failed_.store(true, std::memory_order_release);
  publishFailure(failure, operation);  // the first cause keeps its name
  return error;
}

Error Group::failedWait(WaitEnd end, WaitContext& context, const Doing& doing, const std::vector<int>& missing) {
  switch (end) {
    case WaitEnd::memberError:
      return adopt(context.culprit, doing);
    case WaitEnd::gone:
      return fail(Error(Code::dead, describe(doing) + ": " + describe(context.culprit)), context.culprit, doing.number);
    case WaitEnd::deadline: {
      const std::string who = missing.empty() ? "" : "; still waiting for " + describe(missing);
      return fail(Error(Code::timeout, describe(doing) + ": timed out: the deadline passed" + who),
                  missing.empty() ? -1 : missing.front(), doing.number);
    }
    case WaitEnd::ownError:
    case WaitEnd::satisfied:
      break;
  }
  return status().error();
}

bool Group::clean(std::uint64_t n) const {
  if (failed()) return false;
  for (const WatchedMember& member : watchedCollective_) {
    const std::uint64_t error = member.errors->error.read();
    if (error != 0 && (Failure::unpack(error).code != Code::destroyed || n > member.errors->operation.get()))
      return false;
  }
  return true;
}

Status Group::interruption(const Doing& doing) {
  if (failed()) return status();
  for (int member = 0; member < size(); ++member) {
    const ErrorWords& words = area(member).front().collective.errors;
    const std::uint64_t error = words.error.read();
    if (error == 0 || (Failure::unpack(error).code == Code::destroyed && doing.number <= words.operation.get()))
      continue;
    return adopt(member, doing);
  }
  return {};
}

void Group::wakeOwn() {
  ring(ownArea().front().collective.bell);
  ring(ownArea().front().pointToPoint);
}

void Group::destroyed(std::uint64_t n) {
  const Error ignored = fail(
      Error(Code::destroyed, text("communicator '", name(), "' was destroyed on this rank (", rank(), ")")), -1, n);
  (void)ignored;
  ownArea().front().collective.errors.quiet.publish(1);
}

void Group::close() { ownArea().front().closed.publish(1); }

// --- rule A -------------------------------------------------------------------------------------------------------

void Group::announce(std::uint64_t n, const std::array<std::uint64_t, 7>& words) {
  AnnouncementLine& line = ownArea().announcement(n);
  for (std::size_t word = 0; word < words.size(); ++word) line.words[word].put(words[word]);
  line.sequence.publish(n);
  collective_.dirty = true;
  collective_.operation = n;
}

template <class Ready, class Came>
Status Group::awaitEach(int first, int last, const Doing& doing, Deadline deadline, const Ready& ready,
                        const Came& came) {
  collective_.deadline = deadline;
  for (int member = first; member < last; ++member) {
    if (member == rank()) continue;
    const WaitEnd end = waitUntil(collective_, member, [&](Poll poll) { return ready(poll, member); });
    if (end == WaitEnd::satisfied) continue;
    std::vector<int> missing;
    if (end == WaitEnd::deadline) {
      // A last look at each, which waits for nothing: the deadline has passed.
      for (int other = 0; other < size(); ++other) {
        if (other == rank()) continue;
        if (waitUntil(collective_, other, [&](Poll poll) { return came(poll, other); }) != WaitEnd::satisfied)
          missing.push_back(other);
      }
    }
    return failedWait(end, collective_, doing, missing);
  }
  return {};
}

Status Group::arrive(const Doing& doing, Deadline deadline) {
  const std::uint64_t n = doing.number;
  const auto announcedLine = [&](Poll poll, int member) {
    return area(member).announcement(n).sequence.poll(poll) == n;
  };
  if (size() <= kFlatMembers) {
    if (Status status = awaitEach(0, size(), doing, deadline, announcedLine, announcedLine); !status) return status;
  } else {
    // Leaders gather their members and say so in one line; release and acquire are transitive, so afterwards every
    // announcement can be read.
    const int leader = rank() - rank() % kFlatMembers;
    if (rank() == leader) {
      const int last = std::min(leader + kFlatMembers, size());
      if (Status status = awaitEach(leader, last, doing, deadline, announcedLine, announcedLine); !status)
        return status;
      ownArea().groupLine(n).sequence.publish(n);
      collective_.dirty = true;
    }
    const auto groupComplete = [&](Poll poll, int member) {
      return member % kFlatMembers != 0 || area(member).groupLine(n).sequence.poll(poll) == n;
    };
    if (Status status = awaitEach(0, size(), doing, deadline, groupComplete, announcedLine); !status) return status;
  }
  lookAtBells(collective_);
  return {};
}

Result<Announcement> Group::announced(int member, std::uint64_t n) const {
  const AnnouncementLine& line = area(member).announcement(n);
  Announcement copy;
  copy.sequence = line.sequence.read();
  for (std::size_t word = 0; word < copy.words.size(); ++word) copy.words[word] = line.words[word].get();
  if (copy.sequence != n) {
    return Error(Code::corrupt, text("rank ", member, " announced operation #", copy.sequence, " in the line of #", n),
                 member);
  }
  return copy;
}

bool Group::allAnnounced(std::uint64_t n) const {
  for (const ControlArea& area : areas_) {
    if (area.announcement(n).sequence.read() != n) return false;
  }
  return true;
}

// --- rule S -------------------------------------------------------------------------------------------------------

void Group::step() {
  ownArea().front().steps.publish(++steps_);
  collective_.dirty = true;
}

Status Group::awaitStep(int member, std::uint64_t target, const Doing& doing, Deadline deadline) {
  const auto stepped = [&](Poll poll, int who) { return area(who).front().steps.poll(poll) >= target; };
  return awaitEach(member, member + 1, doing, deadline, stepped, stepped);
}

Status Group::awaitSteps(std::uint64_t target, const Doing& doing, Deadline deadline) {
  const auto stepped = [&](Poll poll, int who) { return area(who).front().steps.poll(poll) >= target; };
  return awaitEach(0, size(), doing, deadline, stepped, stepped);
}

// --- rule E -------------------------------------------------------------------------------------------------------

bool Group::leave(bool touched, std::uint64_t target) {
  ErrorWords& own = ownArea().front().collective.errors;
  own.quiet.publish(1);
  asymmetricBarrier(identity_.fences);
  if (!touched) return true;
  // Errors end no wait here: only the members' last steps, their silence or death, and the grace.
  WaitContext quiet = collective_;
  quiet.endOnErrors = false;
  quiet.deadline = Deadline::in(kQuietGrace);
  bool all = true;
  for (int member = 0; member < size(); ++member) {
    if (member == rank()) continue;
    const AreaFront& front = area(member).front();
    const auto done = [&](Poll poll) {
      return front.steps.poll(poll) >= target || front.collective.errors.quiet.poll(poll) != 0 || gone(member);
    };
    all = waitUntil(quiet, member, done) == WaitEnd::satisfied && all;
  }
  return all;
}

}  // namespace symccl
