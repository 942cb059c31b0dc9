// Spanning trees of the ranks, for algorithms in message form.
#pragma once

#include <array>
#include <vector>

namespace symccl {

/// Where one rank stands in a tree.
struct Place {
  int parent = -1;  ///< -1: this is the root
  std::vector<int> children;
  int depth = 0;   ///< hops from the root
  int height = 0;  ///< the greatest depth of any rank
};

/// root, root + 1, root + 2 ... in a row.
Place chain(int rank, int root, int size);
/// Counted from the root, rank v has parent v without its lowest bit: its subtree is [v, v + lowest bit).
Place binomialTree(int rank, int root, int size);
/// Two trees of nearly log2(size) levels; no rank but the root has children in both.
std::array<Place, 2> doubleTree(int rank, int root, int size);

}  // namespace symccl
