# The backend `hccl`, a part of symccl._npu.
list(APPEND SYMCCL_NPU_SOURCES
  npu/backend/bind.cpp
  npu/backend/checks.cpp
  npu/backend/collectives.cpp
  npu/backend/lists.cpp
  npu/backend/options.cpp
  npu/backend/process_group.cpp)
