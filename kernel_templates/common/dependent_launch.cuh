// Programmatic dependent launch. Without it, and before sm_90, these functions do nothing.
#pragma once

namespace dependent_launch {

// Waits until the grids before this one on the stream have ended and what they wrote can be read.
__device__ __forceinline__ void wait_for_earlier_grids() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// If every block of this grid has called this or ended, blocks of the next grid may start where an SM has room.
__device__ __forceinline__ void let_next_grid_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace dependent_launch
