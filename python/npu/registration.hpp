// What loading the module registers with PyTorch; each is called once, by registerDevice().
#pragma once

#include <torch/library.h>

namespace symccl::npu {

/// Throws if PrivateUse1 is taken by another device, or SYMCCL_NPU_DEVICES is malformed.
void checkRegistrable();
/// Everything below.
void registerDevice();

void registerGuard();
void registerHooks();
void registerAllocator();
void registerTimer();

/// Kernels for aten's PrivateUse1.
void addFactories(torch::Library& library);
void addCopies(torch::Library& library);
void addRandom(torch::Library& library);
void addConvolution(torch::Library& library);
void addRecurrent(torch::Library& library);
void addSyncBatchNorm(torch::Library& library);
/// All operators that have a CPU kernel and none of the above.
void addFallback(torch::Library& library);

/// aten's AutogradPrivateUse1 and AutocastPrivateUse1.
void addRecurrentAutograd(torch::Library& library);
void addAutocast(torch::Library& library);

}  // namespace symccl::npu
