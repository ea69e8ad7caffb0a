#include <filesystem>
#include <utility>

#include "src/core/error.h"
#include "src/core/system/write_file.h"
#include "tools/cli/command.h"
#include "tools/cli/session.h"

namespace autotune::cli {
namespace {

// A pair that tunes as it stands: y = a x + y would be in place, so this one adds two arrays with a factor.
constexpr std::string_view kNewSource = R"cu(// out[i] = factor * x[i] + y[i]
//
// NAME.toml describes this file to autotune, which defines AUTOTUNE and the parameters as macros. Without autotune it is an
// ordinary .cu file with the values below.
#ifndef AUTOTUNE
#define threads 256  // of a block
#define items 4      // elements of a thread
#endif

__global__ void __launch_bounds__(threads) NAME(const float* x, const float* y, float* out, float factor, long long n) {
    const long long first = static_cast<long long>(blockIdx.x) * threads * items + threadIdx.x;
#pragma unroll
    for (int i = 0; i < items; ++i) {
        const long long at = first + i * threads;
        if (at < n) out[at] = factor * x[at] + y[at];
    }
}

// The right answer: the plainest kernel that computes it, with double in place of float. It is not timed.
__global__ void NAME_reference(const double* x, const double* y, double* out, float factor, long long n) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * x[i] + y[i];
}
)cu";

constexpr std::string_view kNewFile = R"toml(# autotune check NAME.toml
# autotune tune --kernel NAME.toml --shape n=16777216
format = 1

[op]
name = "NAME"
about = "out = factor * x + y"
extents = ["n"]                              # the numbers that a problem is made of
examples = ["16777216", "1000003", "1"]      # checked and verified; the first is the default problem
flops = "2.0 * n"                            # speed, and the tolerance: how many terms the sums have

[[tensor]]
name = "x"
dtype = "f32"
shape = ["n"]
access = "in"

[[tensor]]
name = "y"
dtype = "f32"
shape = ["n"]
access = "in"

[[tensor]]
name = "out"
dtype = "f32"
shape = ["n"]
access = "out"

[[scalar]]                                   # passed at each call, never compiled in
name = "factor"
type = "f32"
value = 1.5

[[parameter]]                                # a macro of the source
name = "threads"
values = [64, 128, 256, 512, 1024]
default = 256
about = "threads of a block"

[[parameter]]
name = "items"
values = [1, 2, 4, 8]
default = 4
about = "elements of a thread"

[let]                                        # names for the expressions below
elements = "threads * items"

[[constraint]]                               # configs that break it are dropped
holds = "elements <= 4096"
reason = "a block takes more than 4096 elements"

[[step]]                                     # a launch
kernel = "NAME"
grid = ["ceil_div(n, elements)"]
block = ["threads"]
args = ["x", "y", "out", "factor", "i64: n"]

[check.reference]                            # runs once for each data set; float tensors are handed over as double
kernel = "NAME_reference"
grid = ["ceil_div(n, 256)"]
block = ["256"]
args = ["x", "y", "out", "factor", "i64: n"]

[[config]]                                   # a config with a name, for `autotune bench`
name = "plain"
values = { threads = 256, items = 1 }
)toml";

std::string with_kernel_name(std::string_view text, const std::string& name) {
    std::string out;
    constexpr std::string_view kPlaceholder = "NAME";
    for (std::size_t at = text.find(kPlaceholder); at != std::string_view::npos; at = text.find(kPlaceholder)) {
        out += std::string(text.substr(0, at)) + name;
        text.remove_prefix(at + kPlaceholder.size());
    }
    return out + std::string(text);
}

ExitCode run_new(Session& session, const Arguments& arguments) {
    if (arguments.words().size() != 1) throw Error(ErrorCode::usage, "autotune new wants one NAME");
    const std::string& name = arguments.words().front();
    const bool is_name = !name.empty() && name.size() <= 40 && name[0] >= 'a' && name[0] <= 'z' &&
                         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
    if (!is_name)
        throw Error(ErrorCode::usage,
                    "'" + name + "' is no name of an op: small letters, digits and _, at most 40, a letter first");
    if (session.catalogue().find_op(name) != nullptr)
        throw Error(ErrorCode::usage, "'" + name + "' is a built-in op; choose another name");
    const std::string source = name + ".cu", file = name + ".toml";
    std::error_code ignored;
    for (const std::string& path : {source, file})
        if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
            throw Error(ErrorCode::usage, path + " is there already, and nothing was written; choose another name");
    for (const auto& [path, text] : {std::pair(source, kNewSource), std::pair(file, kNewFile)})
        if (const std::error_code failure = replace_file(path, with_kernel_name(text, name)))
            throw Error(ErrorCode::system, path + " cannot be written: " + failure.message());
    session.out() << "wrote " << source << " and " << file << ". Next:\n    autotune check " << file
                  << "\n    autotune tune --kernel " << file << "\n";
    return ExitCode::done;
}

}  // namespace

Command new_command() {
    return {.name = "new",
            .about = "write a kernel file and its source to start from; they tune as they stand",
            .examples = {"autotune new my_kernel"},
            .flags = {},
            .takes_op_options = false,
            .words = "NAME",
            .min_positional = 1,
            .run = run_new};
}

}  // namespace autotune::cli
