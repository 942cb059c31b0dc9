// What is visible outside the shared library.
#pragma once

#define SYMCCL_EXPORT __attribute__((visibility("default")))
