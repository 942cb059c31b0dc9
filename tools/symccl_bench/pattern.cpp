#include "symccl_bench/pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace symccl::bench {

namespace {

constexpr std::size_t kPeriod = 4093;  // a prime, so that a block moved to a wrong place shows

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

// A normal number >= 0 in a format with `fraction` bits after the leading one, rounded to nearest, ties to even.
std::uint16_t encodeShort(double value, int fraction, int bias) {
  if (value == 0) return 0;
  int exponent = std::ilogb(value);
  auto digits = static_cast<int>(std::nearbyint(std::ldexp(value, fraction - exponent)));
  if (digits == 2 << fraction) {
    digits >>= 1;
    ++exponent;
  }
  return static_cast<std::uint16_t>(((exponent + bias) << fraction) | (digits - (1 << fraction)));
}

template <class T>
void put(std::byte* place, T value) {
  std::memcpy(place, &value, sizeof value);
}

void encode(std::byte* place, double value, DataType type) {
  switch (type) {
    case DataType::float16:
      return put(place, encodeShort(value, 10, 15));
    case DataType::bfloat16:
      return put(place, encodeShort(value, 7, 127));
    case DataType::float32:
      return put(place, static_cast<float>(value));
    case DataType::float64:
      return put(place, value);
    default:  // whole numbers, lowest byte first on every machine we run on
      const auto whole = static_cast<std::uint64_t>(value);
      std::memcpy(place, &whole, sizeOf(type));
  }
}

bool floating(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16 || type == DataType::float32 ||
         type == DataType::float64;
}

// Whether a rank's output has a block of every rank.
bool collects(Op op) {
  return op == Op::allGather || op == Op::allToAll || op == Op::gather || op == Op::allGatherV || op == Op::allToAllV ||
         op == Op::gatherV;
}

}  // namespace

Pattern::Pattern(const Task& task, int rank) : task_(task), rank_(rank), elementBytes_(task.elementBytes()) {
  const bool all = collects(task.op);
  const int before = (rank + task.ranks - 1) % task.ranks;
  inputs_.resize(static_cast<std::size_t>(task.ranks));
  for (int source = 0; source < task.ranks; ++source) {
    const bool needed = all || source == rank || (traitsOf(task.op).rooted && source == task.root) ||
                        (task.op == Op::sendRecv && source == before);
    if (needed) inputs_[static_cast<std::size_t>(source)] = makeTable(source);
  }
  if (traitsOf(task.op).reduces) result_ = makeResult();
  outputs_ = outputs();
}

double Pattern::value(int source, std::size_t place) const {
  const std::uint64_t random = mixed(static_cast<std::uint64_t>(source) * kPeriod + place % kPeriod + 1);
  if (!traitsOf(task_.op).reduces) return static_cast<double>(random % 128);
  switch (task_.reduction) {
    case ReduceOp::sum:
    case ReduceOp::average:  // the sum stays within int8 and within the whole numbers of bfloat16
      return static_cast<double>(random % static_cast<std::uint64_t>(std::max(2, 121 / task_.ranks)));
    case ReduceOp::product:
      return source < 6 ? static_cast<double>(1 + random % 2) : 1;
    default:
      return static_cast<double>(random % 128);
  }
}

double Pattern::reduced(std::size_t place) const {
  double result = value(0, place);
  for (int source = 1; source < task_.ranks; ++source) {
    const double next = value(source, place);
    const auto a = static_cast<std::uint64_t>(result), b = static_cast<std::uint64_t>(next);
    switch (task_.reduction) {
      case ReduceOp::product:
        result *= next;
        break;
      case ReduceOp::min:
        result = std::min(result, next);
        break;
      case ReduceOp::max:
        result = std::max(result, next);
        break;
      case ReduceOp::bitAnd:
        result = static_cast<double>(a & b);
        break;
      case ReduceOp::bitOr:
        result = static_cast<double>(a | b);
        break;
      case ReduceOp::bitXor:
        result = static_cast<double>(a ^ b);
        break;
      default:
        result += next;
    }
  }
  if (task_.reduction != ReduceOp::average) return result;
  if (!floating(task_.type)) return std::floor(result / task_.ranks);
  // The short types are summed and divided in float32 before they are rounded.
  if (task_.elementBytes() == 2) return static_cast<float>(result) / static_cast<float>(task_.ranks);
  return result / task_.ranks;
}

Pattern::Table Pattern::makeTable(int source) const {
  Table table(2 * kPeriod * elementBytes_);
  for (std::size_t i = 0; i < 2 * kPeriod; ++i) encode(&table[i * elementBytes_], value(source, i), task_.type);
  return table;
}

Pattern::Table Pattern::makeResult() const {
  Table table(2 * kPeriod * elementBytes_);
  for (std::size_t i = 0; i < 2 * kPeriod; ++i) encode(&table[i * elementBytes_], reduced(i), task_.type);
  return table;
}

std::vector<Pattern::Piece> Pattern::outputs() const {
  const auto input = [&](int source) { return &inputs_[static_cast<std::size_t>(source)]; };
  const auto block = [&](int from) { return task_.blockElements(from, rank_); };
  const bool scatters = task_.op == Op::allToAll || task_.op == Op::allToAllV;
  const bool toRootOnly = task_.op == Op::reduce || task_.op == Op::gather || task_.op == Op::gatherV;
  std::vector<Piece> pieces;
  if (toRootOnly && rank_ != task_.root) return pieces;
  switch (task_.op) {
    case Op::allReduce:
    case Op::reduce:
      return {{0, &result_, 0, task_.count}};
    case Op::reduceScatter:
    case Op::reduceScatterV:
      return {{0, &result_, task_.sendOffset(0, rank_), block(0)}};
    case Op::broadcast:
      return {{0, input(task_.root), 0, task_.count}};
    case Op::scatter:
    case Op::scatterV:
      return {{0, input(task_.root), task_.sendOffset(task_.root, rank_), block(task_.root)}};
    case Op::sendRecv:
      return {{0, input((rank_ + task_.ranks - 1) % task_.ranks), 0, task_.count}};
    default:
      break;
  }
  for (int source = 0; collects(task_.op) && source < task_.ranks; ++source) {
    const std::size_t start = scatters ? task_.sendOffset(source, rank_) : 0;
    pieces.push_back({task_.recvOffset(source, rank_), input(source), start, block(source)});
  }
  return pieces;
}

std::size_t Pattern::shift(std::uint64_t iteration) const { return iteration * 97 % kPeriod; }

void Pattern::write(void* send, void* recv, std::uint64_t iteration) const {
  const bool isBroadcast = task_.op == Op::broadcast;
  if (!traitsOf(task_.op).sized || (isBroadcast && rank_ != task_.root)) return;
  auto* out = static_cast<std::byte*>(isBroadcast ? recv : send);
  const std::size_t count = isBroadcast ? task_.count : task_.sendElements(rank_);
  const Table& table = inputs_[static_cast<std::size_t>(rank_)];
  const std::size_t start = shift(iteration);
  for (std::size_t done = 0; done < count; done += kPeriod) {
    const std::size_t part = std::min(kPeriod, count - done);
    std::memcpy(out + done * elementBytes_, &table[start * elementBytes_], part * elementBytes_);
  }
}

std::uint64_t Pattern::wrong(const void* recv, std::uint64_t iteration) const {
  std::uint64_t found = 0;
  for (const Piece& piece : outputs_) {
    const auto* in = static_cast<const std::byte*>(recv) + piece.offset * elementBytes_;
    const std::byte* expected = &(*piece.table)[(piece.start + shift(iteration)) % kPeriod * elementBytes_];
    for (std::size_t done = 0; done < piece.count; done += kPeriod) {
      const std::size_t part = std::min(kPeriod, piece.count - done);
      if (std::memcmp(in + done * elementBytes_, expected, part * elementBytes_) == 0) continue;
      for (std::size_t i = 0; i < part; ++i) {
        const std::size_t at = i * elementBytes_;
        found += std::memcmp(in + done * elementBytes_ + at, expected + at, elementBytes_) != 0;
      }
    }
  }
  return found;
}

}  // namespace symccl::bench
