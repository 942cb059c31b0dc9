// What the kernel tells about a process, for tests that count.
#pragma once

#include <cstddef>
#include <string>

namespace symccl::test {

int openDescriptors();
int mappings();
int threads();

/// Bytes of private anonymous memory of this process that are resident / of shared memory.
std::size_t residentPrivate();
std::size_t residentShared();
/// Bytes of the heap of this process's default device that have pages.
std::size_t heapPages();

/// What is there of ours for others to find: names in /proc/net/unix, files in /dev/shm, one a line.
std::string namesInTheSystem();
/// Bytes of shared memory in the whole machine.
std::size_t sharedMemoryOfMachine();

}  // namespace symccl::test
