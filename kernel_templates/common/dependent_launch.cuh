// Programmatic dependent launch. Nothing happens in a grid that was launched without it, nor before sm_90.
#pragma once

namespace dependent_launch {

// Until the grids before this one on the stream have ended and what they wrote can be read.
__device__ __forceinline__ void wait_for_earlier_grids() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next grid's blocks may start once every block of this one has said so or ended, where there is room on an SM.
__device__ __forceinline__ void let_next_grid_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace dependent_launch
