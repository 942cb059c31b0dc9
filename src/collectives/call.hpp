// A collective call as its rank announced it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "protocol/group.hpp"
#include "symccl/communicator.hpp"

namespace symccl {

/// How a rank offers its input: in the announcement, in its eager slot, or in its buffers.
enum class Form : std::uint8_t { inlined, eager, buffers };

/// One rank's announcement, decoded.
struct Call {
  Kind kind = Kind::barrier;
  DataType type = DataType::byte;
  ReduceOp op = ReduceOp::sum;
  Form form = Form::inlined;
  bool sendLocated = false;  ///< the whole input lies in segments registered with this communicator
  bool recvLocated = false;
  bool inPlace = false;  ///< input and output overlap
  int root = 0;
  std::uint64_t count = 0;        ///< elements; v kinds: bytes of the largest piece for another rank
  std::uint64_t send = kPrivate;  ///< heap offsets; v kinds have a table instead
  std::uint64_t recv = kPrivate;
  double factor = 1.0;                            ///< premulSum
  std::uint64_t given = 0, expected = 0;          ///< v kinds: digests of the sizes, see Layout::digest()
  std::array<std::byte, kInlineBytes> payload{};  ///< Form::inlined

  std::array<std::uint64_t, 7> encode() const;
  /// Of words that a peer wrote: Code::corrupt if a field is none of its values.
  static Result<Call> decode(const Announcement& announcement, int rank, int size);

  /// Whether both ranks called the same operation: everything equal but where their buffers lie (v kinds: and the form
  /// and the count).
  bool sameAs(const Call& other) const;
  /// "all_reduce float32 x 3 sum", for people.
  std::string describe() const;
};

bool isV(Kind kind);
/// Kinds that combine elements.
bool reduces(Kind kind);
/// Those of them that leave each rank its own part of the result.
bool scatters(Kind kind);
bool hasRoot(Kind kind);

/// Input bytes that one rank of `size` makes available: the same on all ranks, whatever their role. Not for v kinds.
std::uint64_t offeredBytes(Kind kind, std::uint64_t countBytes, int size);
/// The form that follows from it.
Form formFor(std::uint64_t offered, ReduceOp op, Kind kind);

}  // namespace symccl
