// Inputs whose results are known exactly, and the check of outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "symccl_bench/task.hpp"

namespace symccl::bench {

/// The data of one task as one rank sees it.
///
/// Values are small whole numbers that follow from rank, place and iteration, with a prime period; sums, products and
/// averages of them are exact in every type (float16 and bfloat16 averages: rounded once), so outputs are compared bit
/// by bit. Writing and comparing run at the speed of memory.
class Pattern {
 public:
  Pattern(const Task& task, int rank);

  /// Writes this rank's input of iteration `iteration`; `send` and `recv` as the operation is called with.
  void write(void* send, void* recv, std::uint64_t iteration) const;
  /// Reads this rank's whole output; the elements that are not as they must be.
  std::uint64_t wrong(const void* recv, std::uint64_t iteration) const;

 private:
  using Table = std::vector<std::byte>;  ///< two periods of elements
  struct Piece {
    std::size_t offset;  ///< in elements, within the output
    const Table* table;
    std::size_t start;  ///< the element of the table's sequence that the piece begins with
    std::size_t count;
  };

  Table makeTable(int source) const;
  Table makeResult() const;
  double value(int source, std::size_t place) const;
  double reduced(std::size_t place) const;
  std::vector<Piece> outputs() const;
  std::size_t shift(std::uint64_t iteration) const;

  Task task_;
  int rank_;
  std::size_t elementBytes_;
  std::vector<Table> inputs_;  ///< by rank; empty for those whose input reaches no output here
  Table result_;
  std::vector<Piece> outputs_;
};

}  // namespace symccl::bench
