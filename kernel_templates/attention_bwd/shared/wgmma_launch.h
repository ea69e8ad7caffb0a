#pragma once

#include <cstdint>
#include <vector>

#include "kernel_templates/attention_bwd/op/bwd_problem.h"

// What the families on wgmma share of their spaces and launches (wgmma_parts.cuh is the device's side).
namespace autotune::attention_bwd {

// What a math warpgroup's thread gets by setmaxnreg.
std::int64_t registers_of(std::int64_t consumer_warpgroups);

// Why no family on wgmma takes the problem.
std::optional<std::string> refuses_wgmma(const View& view, const Device& device);

void add_strides(std::vector<Argument>& to, const attention::Strides& strides);

// Rows of the workspace's vectors, whole tiles of queries, and the bytes of one of the two.
std::int64_t padded_rows(const View& view);
std::int64_t vector_bytes(const View& view);

// How many of `heads` are worked on together: those whose other side takes up to `mib`; 0: one.
std::int64_t heads_at_once(const View& view, std::int64_t mib, std::int64_t other_len, std::int64_t heads);

// What is needed until dQ is written lies in the workspace, or in dQ itself.
enum class Scratch { workspace, dq };
Argument address_in(Scratch scratch, std::int64_t offset_bytes);
// Whether dQ is one piece of memory, and at least of that size.
bool dq_holds(const View& view, std::int64_t bytes);

// The kernel that prepares both vectors, with which the scratch begins.
LaunchStep prepare_step(const View& view, Scratch scratch);
// What the kernels that use them are called with first: four maps and the vectors.
std::vector<Argument> pass_arguments(const Problem& problem, const View& view, Scratch scratch, std::int64_t query_rows,
                                     std::int64_t key_rows);

// What a kernel whose blocks have a tile of keys each is called with last but for its walk: dK, dV, the scale, extents, strides.
void add_key_arguments(std::vector<Argument>& to, const View& view);

// Bindings that all bind: element_type, d, dv, has_low, has_high.
std::vector<Binding> wgmma_facts(const Problem& problem);

}  // namespace autotune::attention_bwd
