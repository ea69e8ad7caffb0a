#pragma once

#include <cstdint>
#include <vector>

#include "kernel_templates/attention_bwd/op/bwd_problem.h"

// Host code that the families on wgmma share for their spaces and launches (device code: wgmma_parts.cuh).
namespace autotune::attention_bwd {

// Registers that setmaxnreg gives a thread of a consumer warpgroup.
std::int64_t registers_of(std::int64_t consumer_warpgroups);

// Why no family on wgmma accepts the problem.
std::optional<std::string> refuses_wgmma(const View& view, const Device& device);

void add_strides(std::vector<Argument>& to, const attention::Strides& strides);

// Rows of the workspace's vectors, in whole tiles of queries; and the bytes of one of the two vectors.
std::int64_t padded_rows(const View& view);
std::int64_t vector_bytes(const View& view);

// How many of `heads` are processed together, so that the tensors of the other side take at most `mib`; with 0 it is one.
std::int64_t heads_at_once(const View& view, std::int64_t mib, std::int64_t other_len, std::int64_t heads);

// The place of data that is needed until dQ is written: the workspace, or dQ itself.
enum class Scratch { workspace, dq };
Argument address_in(Scratch scratch, std::int64_t offset_bytes);
// Whether dQ is contiguous and has at least that size.
bool dq_holds(const View& view, std::int64_t bytes);

// The kernel that prepares both vectors, which lie at the start of the scratch.
LaunchStep prepare_step(const View& view, Scratch scratch);
// The first arguments of both passes: four maps and the vectors.
std::vector<Argument> pass_arguments(const Problem& problem, const View& view, Scratch scratch, std::int64_t query_rows,
                                     std::int64_t key_rows);

// Adds the last arguments of a kernel whose blocks own tiles of keys: dK, dV, the scale, extents and strides. A kernel's own
// arguments follow.
void add_key_arguments(std::vector<Argument>& to, const View& view);

// Bindings of all families on wgmma: element_type, d, dv, has_low, has_high.
std::vector<Binding> wgmma_facts(const Problem& problem);

}  // namespace autotune::attention_bwd
