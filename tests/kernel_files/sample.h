#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/kernel_files/kernel_file.h"

namespace autotune::kernel_files {

inline constexpr const char* kSource = R"cu(#include <cstdint>
#include "helper.h"
#ifndef AUTOTUNE
#define threads 128
#define width 4
#endif
// no_kernel( is a comment
__global__ void scale(const float* x, float* y, float factor, int n) {
    const int i = blockIdx.x * threads * width + threadIdx.x;
    if (i < n) y[i] = helper(x[i]) * factor;
}
extern "C" __global__ void scale_reference(const double* x, double* y, float factor, int n) {
    for (int i = 0; i < n; ++i) y[i] = x[i] * factor;
}
template <int size>
__global__ void templated(float* y) {}
)cu";

inline constexpr const char* kFile = R"toml(format = 1
[op]
name = "scale"
extents = ["n"]
examples = ["1000", "1"]
flops = "1.0 * n"
[[attribute]]
name = "mode"
values = ["plain", "fancy"]
[[tensor]]
name = "x"
dtype = "f32"
shape = ["n"]
access = "in"
[[tensor]]
name = "y"
dtype = "f32"
shape = ["n"]
access = "out"
[[scalar]]
name = "factor"
type = "f32"
value = 1.5
[[parameter]]
name = "threads"
values = [64, 128]
default = 128
[[parameter]]
name = "width"
values = [1, 2, 4]
[let]
items = "threads * width"
[[constraint]]
holds = "64 <= items <= 512"
reason = "too many items"
[[step]]
kernel = "scale"
grid = ["ceil_div(n, items)"]
block = ["threads"]
args = ["x", "y", "factor", "i32: n"]
[check.reference]
kernel = "scale_reference"
grid = ["1"]
block = ["1"]
args = ["x", "y", "factor", "i32: n"]
[[config]]
name = "plain"
values = { threads = 64, width = 1 }
)toml";

// A folder with a kernel file, its source and a header of it.
class Folder {
  public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "kernel_file_XXXXXX").string();
        folder_ = mkdtemp(name.data());
        put("scale.cu", kSource);
        put("helper.h", "__device__ float helper(float x) { return x; }\n");
        put("scale.toml", kFile);
    }
    ~Folder() { std::filesystem::remove_all(folder_); }
    void put(const std::string& name, const std::string& text) const { std::ofstream(path(name), std::ios::binary) << text; }
    std::string path(const std::string& name) const { return folder_ + "/" + name; }
    // The file with one text replaced by another. The replaced text must be in it.
    Loaded with(const std::string& from, const std::string& to) const {
        std::string text = kFile;
        const std::size_t at = text.find(from);
        if (at == std::string::npos) throw std::logic_error("the file has no '" + from + "'");
        put("scale.toml", text.replace(at, from.size(), to));
        return load(path("scale.toml"), {.taken_names = {"gemm", "hgemm"}, .taken_options = {"budget"}});
    }
    std::vector<std::string> told(const std::string& from, const std::string& to) const {
        Loaded loaded = with(from, to);
        if (loaded.is_whole())
            for (Finding& finding : check(loaded.file, {*reference_device("sm_90a"), *reference_device("sm_80")}))
                loaded.findings.push_back(std::move(finding));
        std::vector<std::string> all;
        for (const Finding& finding : loaded.findings) {
            std::string text = finding.told();
            if (text.starts_with(folder_)) text.erase(0, folder_.size() + 1);
            all.push_back(std::move(text));
        }
        return all;
    }

  private:
    std::string folder_;
};

}  // namespace autotune::kernel_files
