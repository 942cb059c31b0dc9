#include "collectives/exchange.hpp"

namespace symccl {

// A rank that has published the step after a turn has read what it took in that turn.
Status Exchange::awaitReaders() {
  for (const int reader : readers_[(round_.scratch().slice + 1) & 1]) {
    if (Status status = round_.await(reader); !status) return status;
  }
  return {};
}

Result<std::byte*> Exchange::open() {
  if (Status status = awaitReaders(); !status) return status.error();
  return round_.area(round_.rank()).inputSlot(round_.scratch().slice + 1);
}

void Exchange::post(std::span<const int> readers) {
  const std::uint64_t slice = ++round_.scratch().slice;
  // A turn without a slice leaves the slot, and who may still read it, as they are.
  if (!readers.empty()) readers_[slice & 1].assign(readers.begin(), readers.end());
  round_.step();
}

Result<const std::byte*> Exchange::take(int peer) {
  if (Status status = round_.await(peer); !status) return status.error();
  return static_cast<const std::byte*>(round_.area(peer).inputSlot(round_.scratch().slice));
}

Result<const std::byte*> Exchange::swap(int to, const void* data, std::size_t bytes, int from) {
  Result<std::byte*> slot = open();
  if (!slot) return slot.error();
  if (Status status = round_.copy(*slot, data, bytes, Stores::ordinary); !status) return status.error();
  post({to});
  return take(from);
}

void Exchange::pass(int turns) {
  for (int turn = 0; turn < turns; ++turn) post({});
}

}  // namespace symccl
