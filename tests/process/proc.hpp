// What the kernel tells about a process, for tests that count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace symccl::test {

int openDescriptors();
int mappings();
int threads();

/// Bytes of private anonymous memory of this process that are resident / of shared memory.
std::size_t residentPrivate();
std::size_t residentShared();
/// Bytes of the heap of this process's default device that have pages.
std::size_t heapPages();

/// The file that is this process's heap, and the sockets that are its own: numbers that outlive it where they do.
std::uint64_t heapInode();
std::vector<std::uint64_t> socketInodes();
/// Whether any process of the machine that can be looked into has the file open or mapped.
bool someoneHolds(std::uint64_t inode);
bool isSocket(std::uint64_t inode);

}  // namespace symccl::test
