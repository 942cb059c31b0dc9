#include "collectives/spanning_tree.hpp"

#include <algorithm>
#include <bit>

namespace symccl {

namespace {

int lowestBit(int value) { return value & -value; }

// `parentOf(v)`: of ranks counted from the root, v in 1..size-1.
template <class ParentOf>
Place place(int rank, int root, int size, const ParentOf& parentOf) {
  const auto fromRoot = [&](int real) { return (real - root + size) % size; };
  const auto real = [&](int v) { return (v + root) % size; };
  std::vector<int> depths(static_cast<std::size_t>(size), -1);
  depths[0] = 0;
  const auto depth = [&](int v, const auto& self) -> int {
    int& known = depths[static_cast<std::size_t>(v)];
    if (known < 0) known = self(parentOf(v), self) + 1;
    return known;
  };
  const int own = fromRoot(rank);
  Place result;
  for (int v = 1; v < size; ++v) {
    result.height = std::max(result.height, depth(v, depth));
    if (parentOf(v) == own) result.children.push_back(real(v));
  }
  result.depth = depths[static_cast<std::size_t>(own)];
  if (own != 0) result.parent = real(parentOf(own));
  return result;
}

// The tree of positions 1..last in which those with lowest bit 1 are the leaves, those with lowest bit 2 their parents,
// and so on.
int parentInOrder(int position, int last) {
  const int bit = lowestBit(position);
  const int above = (position ^ bit) | (bit << 1);
  return above <= last ? above : position ^ bit;
}

}  // namespace

Place chain(int rank, int root, int size) {
  return place(rank, root, size, [](int v) { return v - 1; });
}

Place binomialTree(int rank, int root, int size) {
  return place(rank, root, size, [](int v) { return v ^ lowestBit(v); });
}

std::array<Place, 2> doubleTree(int rank, int root, int size) {
  const int last = size - 1;
  const int top = static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(last, 1))));
  const auto first = [&](int v) { return v == top ? 0 : parentInOrder(v, last); };
  // The same tree with even and odd positions exchanged: mirrored, or shifted by one.
  const bool mirrored = last % 2 == 0;
  const auto positionOf = [&](int v) { return mirrored ? last + 1 - v : v % last + 1; };
  const auto at = [&](int position) { return mirrored ? last + 1 - position : (position + last - 2) % last + 1; };
  const auto second = [&](int v) {
    const int position = positionOf(v);
    return position == top ? 0 : at(parentInOrder(position, last));
  };
  return {place(rank, root, size, first), place(rank, root, size, second)};
}

}  // namespace symccl
