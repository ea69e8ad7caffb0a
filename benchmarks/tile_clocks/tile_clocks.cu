// Runs a rendered kernel of gemm/wgmma with clock stamps (tile_clocks.py) and prints the mean clocks of a tile's parts.
#include KERNEL_SOURCE

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

void check(int status, const char* what) {
    if (status == 0) return;
    std::fprintf(stderr, "tile_clocks: %s: error %d\n", what, status);
    std::exit(1);
}

using Encode = decltype(&cuTensorMapEncodeTiled);

TensorMap map_of(Encode encode, void* at, cuuint64_t rows, cuuint64_t columns, cuuint32_t box_columns, cuuint32_t box_rows) {
    CUtensorMap map;
    const cuuint64_t extents[3] = {columns, rows, 1}, strides[2] = {columns * 2, columns * rows * 2};
    const cuuint32_t box[3] = {box_columns, box_rows, 1}, steps[3] = {1, 1, 1};
    const auto swizzle = box_columns == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
                         : box_columns == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                             : CU_TENSOR_MAP_SWIZZLE_32B;
    check(encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, at, extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
          "cuTensorMapEncodeTiled");
    TensorMap to;
    std::memcpy(&to, &map, sizeof to);
    return to;
}

// Approximately N(0,1): sums of four uniform numbers.
__global__ void fill(__nv_bfloat16* to, size_t count, unsigned seed) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
        unsigned hash = static_cast<unsigned>(i * 2654435761u) ^ seed;
        float sum = 0;
        for (int k = 0; k < 4; ++k) {
            hash = (hash ^ hash >> 16) * 0x7feb352du;
            hash = (hash ^ hash >> 15) * 0x846ca68bu;
            hash ^= hash >> 16;
            sum += static_cast<float>(hash & 0xffff) / 65536.0f - 0.5f;
        }
        to[i] = __float2bfloat16(sum * 1.73f);
    }
}

struct Buffers {
    __nv_bfloat16 *a, *b, *c;
};

}  // namespace

int main(int, char** words) {
    const int m = std::atoi(words[1]), n = std::atoi(words[2]), k = std::atoi(words[3]), stages = std::atoi(words[4]), group = std::atoi(words[5]),
              raster = std::atoi(words[6]), launches = std::atoi(words[7]);
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &found), "cudaGetDriverEntryPoint");
    const auto encode = reinterpret_cast<Encode>(entry);
    Buffers sets[2];
    for (int i = 0; i < 2; ++i) {
        check(cudaMalloc(&sets[i].a, size_t(m) * k * 2), "cudaMalloc");
        check(cudaMalloc(&sets[i].b, size_t(n) * k * 2), "cudaMalloc");
        check(cudaMalloc(&sets[i].c, size_t(m) * n * 2), "cudaMalloc");
        fill<<<1024, 256>>>(sets[i].a, size_t(m) * k, 1 + i);
        fill<<<1024, 256>>>(sets[i].b, size_t(n) * k, 77 + i);
    }
    const int along_m = swap_ab ? n : m, along_n = swap_ab ? m : n;
    const int tiles_m = (along_m + block_m * cluster_m - 1) / (block_m * cluster_m);
    const int tiles_n = (along_n + block_n * cluster_n - 1) / (block_n * cluster_n);
    const int smem = 1024 + stages * (stage_bytes + 16) + consumer_warpgroups * (epilogue_stages * staging_bytes + 12) + 12;
    check(cudaFuncSetAttribute(tile_clocks_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem), "shared memory");
    int processors = 0;
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
    const int clusters = std::min(processors / cluster_blocks, tiles_m * tiles_n);
    std::vector<long long> stamps(size_t(processors) * 16);
    long long* on_device = nullptr;
    check(cudaMalloc(&on_device, stamps.size() * 8), "cudaMalloc");
    check(cudaMemset(on_device, 0, stamps.size() * 8), "cudaMemset");
    check(cudaMemcpyToSymbol(stamps_out, &on_device, sizeof on_device), "cudaMemcpyToSymbol");
    const auto launch = [&](const Buffers& at) {
        const TensorMap x = map_of(encode, swap_ab ? at.b : at.a, along_m, k, 64, block_m / cluster_n);
        const TensorMap y = map_of(encode, swap_ab ? at.a : at.b, along_n, k, 64, block_n / cluster_m);
        const TensorMap c = swap_ab ? map_of(encode, at.c, m, n, 64, span_c) : map_of(encode, at.c, m, n, span_c, 64 * bands);
        cudaLaunchAttribute cluster;
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim = {unsigned(cluster_blocks), 1, 1};
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(clusters * cluster_blocks);
        config.blockDim = dim3(math_threads + 128);
        config.dynamicSmemBytes = smem;
        config.attrs = &cluster;
        config.numAttrs = 1;
        check(cudaLaunchKernelEx(&config, tile_clocks_kernel, x, y, c, reinterpret_cast<Out*>(at.c), 1.0f, 0.0f, m, n, k, static_cast<long long>(n), 1,
                                 static_cast<long long>(m) * n, static_cast<u32*>(nullptr), static_cast<Register*>(nullptr), stages, tiles_m, tiles_n,
                                 tiles_m * tiles_n, group, raster, 1, 0, 0, 0),
              "launch");
    };
    for (int i = 0; i < 2; ++i) launch(sets[i]);
    check(cudaDeviceSynchronize(), "first launches");
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    cudaEventRecord(begin);
    for (int i = 0; i < launches; ++i) launch(sets[i % 2]);
    cudaEventRecord(end);
    check(cudaDeviceSynchronize(), "launches");
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    check(cudaMemcpy(stamps.data(), on_device, stamps.size() * 8, cudaMemcpyDeviceToHost), "cudaMemcpy");
    std::vector<unsigned short> c(size_t(m) * n);
    check(cudaMemcpy(c.data(), sets[0].c, c.size() * 2, cudaMemcpyDeviceToHost), "cudaMemcpy");
    unsigned long long checksum = 0;
    for (size_t i = 0; i < c.size(); ++i) checksum += c[i] * (unsigned long long)(i % 8191 + 1);
    std::printf("  %.1f us a launch, checksum %016llx\n", ms * 1e3 / launches, checksum);
    for (int g = 0; g < 2; ++g) {
        double sums[7] = {}, blocks = 0;
        for (int block = 0; block < processors; ++block) {
            const long long* of = &stamps[(block * 2 + g) * 8];
            if (of[0] == 0) continue;
            ++blocks;
            for (int j = 0; j < 7; ++j) sums[j] += double(of[j]);
        }
        if (blocks == 0) continue;
        std::printf("  group %d: %.2f tiles a block, %.0f clocks in all; of a tile: wait %.0f, loop %.0f, drain %.0f, store %.0f, next %.0f\n", g,
                    sums[0] / blocks, sums[6] / blocks, sums[1] / sums[0], sums[2] / sums[0], sums[3] / sums[0], sums[4] / sums[0], sums[5] / sums[0]);
    }
}
