from symccl.npu._hccl import ProcessGroupHCCL

__all__ = ["ProcessGroupHCCL"]
