#include "p2p/ring.hpp"

namespace symccl {

namespace {

// A writer that sees a full ring has written 32 records past a published count, so the reader publishes again, and
// looks at the writer's bell, before the ring is empty: publishing more seldom than every 32 records is enough to wake
// it.
constexpr std::uint64_t kRecordsPerCount = 8;
static_assert(kRingRecords % kRecordsPerCount == 0);

// The first word after the sequence: type 8, form 8, count 8, element type 8 (0: bytes), tag 32 bits.
std::uint64_t headOf(const Record& record) {
  return static_cast<std::uint64_t>(record.type) | static_cast<std::uint64_t>(record.form) << 8 |
         static_cast<std::uint64_t>(record.count) << 16 | static_cast<std::uint64_t>(record.tag) << 32;
}

}  // namespace

Look RingWriter::room(Poll poll) {
  if (written_ - seen_ < kRingRecords) return Look::ready;
  const std::uint64_t consumed = consumed_.poll(poll);
  if (consumed < seen_ || consumed > written_) return Look::corrupt;
  seen_ = consumed;
  return written_ - seen_ < kRingRecords ? Look::ready : Look::nothing;
}

void RingWriter::put(const Record& record) {
  RingRecord& line = ring_.records[written_ % kRingRecords];
  line.words[0].put(headOf(record));
  line.words[1].put(record.number);
  for (std::size_t word = 0; word < record.body.size(); ++word) line.words[2 + word].put(record.body[word]);
  line.sequence.publish(++written_);
}

Look RingReader::take(Poll poll, Record& record) {
  const RingRecord& line = ring_.records[taken_ % kRingRecords];
  const std::uint64_t sequence = line.sequence.poll(poll);
  if (sequence != taken_ + 1) {
    const std::uint64_t before = taken_ < kRingRecords ? 0 : taken_ + 1 - kRingRecords;
    return sequence == before ? Look::nothing : Look::corrupt;
  }
  const std::uint64_t head = line.words[0].get();
  record.type = static_cast<RecordType>(head & 0xff);
  record.form = static_cast<Form>(head >> 8 & 0xff);
  record.count = static_cast<std::uint8_t>(head >> 16 & 0xff);
  record.tag = static_cast<std::uint32_t>(head >> 32);
  record.number = line.words[1].get();
  for (std::size_t word = 0; word < record.body.size(); ++word) record.body[word] = line.words[2 + word].get();
  if (++taken_ % kRecordsPerCount == 0) {
    consumed_.publish(taken_);
    madeRoom_ = true;
  }
  return record.type >= RecordType::send && record.type <= RecordType::data ? Look::ready : Look::corrupt;
}

}  // namespace symccl
