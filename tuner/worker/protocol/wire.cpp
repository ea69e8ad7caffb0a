#include "tuner/worker/protocol/wire.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/core/error.h"
#include "src/records/record_reader.h"
#include "src/records/record_writer.h"

namespace autotune::tuner::wire {
namespace {

// An error ratio may be infinite, which JSON cannot express.
double finite(double value) {
    return std::isfinite(value) ? std::clamp(value, -1e300, 1e300) : 1e300;
}

DType read_dtype(const Json& json) {
    const auto type = parse_dtype(json.get<std::string>());
    check(type.has_value(), "unknown dtype in a message");
    return *type;
}

Json write_tensor(const Tensor& tensor) {
    Json dims = Json::array();
    for (const Dim& dim : tensor.dims) dims.push_back({dim.extent, dim.stride});
    return {{"name", tensor.name},       {"dtype", to_string(tensor.dtype)}, {"access", static_cast<int>(tensor.access)},
            {"dims", std::move(dims)},   {"align", tensor.alignment_bytes},  {"optional", tensor.is_optional},
            {"absent", tensor.is_absent}};
}

Tensor read_tensor(const Json& json) {
    Tensor tensor;
    tensor.name = json.at("name").get<std::string>();
    tensor.dtype = read_dtype(json.at("dtype"));
    const int access = json.at("access").get<int>();
    check(access >= 0 && access <= 2, "unknown access in a message");
    tensor.access = static_cast<Access>(access);
    for (const Json& dim : json.at("dims")) tensor.dims.push_back({dim.at(0).get<std::int64_t>(), dim.at(1).get<std::int64_t>()});
    check(tensor.dims.size() <= Tensor::kMostDims, "a tensor of too many dimensions in a message");
    tensor.alignment_bytes = json.at("align").get<int>();
    tensor.is_optional = json.at("optional").get<bool>();
    tensor.is_absent = json.at("absent").get<bool>();
    return tensor;
}

Json write_attribute(const Attribute& attribute) {
    return std::visit([&](const auto& value) { return Json{attribute.name, value}; }, attribute.value);
}

Attribute read_attribute(const Json& json) {
    const Json& value = json.at(1);
    Attribute attribute{json.at(0).get<std::string>(), {}};
    if (value.is_string()) {
        attribute.value = value.get<std::string>();
    } else if (value.is_number_float()) {
        attribute.value = value.get<double>();
    } else {
        attribute.value = value.get<std::int64_t>();
    }
    return attribute;
}

Json write_scalar(const Scalar& scalar) {
    return {scalar.name, scalar.value.index(), scalar.bits()};
}

Scalar read_scalar(const Json& json) {
    Scalar scalar{json.at(0).get<std::string>()};
    const auto bits = json.at(2).get<std::uint64_t>();
    switch (json.at(1).get<std::size_t>()) {
        case 0:
            scalar.value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
            break;
        case 1:
            scalar.value = std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(bits));
            break;
        default:
            scalar.value = bits;
    }
    return scalar;
}

}  // namespace

Json write(const Candidate& candidate) {
    return {{"family", candidate.family}, {"config", records::json_of(candidate.config)}};
}

Json write(const Measurement& measurement) {
    return {{"samples", measurement.samples},
            {"time_us", measurement.time_us},
            {"most_samples", std::max(measurement.most_samples, 1)}};
}

Json write(const Step& step) {
    Json json = write(step.measurement);
    json["by_interval"] = step.by_interval;
    if (step.enough_above_us) json["enough_above_us"] = *step.enough_above_us;
    return json;
}

Measurement read_measurement(const Json& json) {
    Measurement measurement;
    measurement.samples = json.at("samples").get<int>();
    measurement.time_us = json.at("time_us").get<double>();
    measurement.most_samples = json.at("most_samples").get<int>();
    return measurement;
}

Step read_step(const Json& json) {
    Step step;
    step.measurement = read_measurement(json);
    step.by_interval = json.at("by_interval").get<bool>();
    if (json.contains("enough_above_us")) step.enough_above_us = json["enough_above_us"].get<double>();
    return step;
}

Candidate read_candidate(const Json& json) {
    return {json.at("family").get<std::string>(), records::read_config(json.at("config"), "config")};
}

Json write(const CompileReport& report) {
    return records::json_of(report, kInMessages);
}

CompileReport read_report(const Json& json) {
    return records::read_record<CompileReport>(json, "report");
}

Json write(const Trial& trial) {
    return {{"candidate", write(trial.candidate)},
            {"status", to_string(trial.status)},
            {"timing", trial.timing ? records::json_of(*trial.timing, kInMessages) : Json(nullptr)},
            {"max_error", trial.max_error ? Json(finite(*trial.max_error)) : Json(nullptr)},
            {"compile", write(trial.compile)},
            {"detail", trial.detail}};
}

Trial read_trial(const Json& json) {
    Trial trial;
    trial.candidate = read_candidate(json.at("candidate"));
    const auto status = parse_trial_status(json.at("status").get<std::string>());
    check(status.has_value(), "unknown trial status in a message");
    trial.status = *status;
    if (!json.at("timing").is_null()) trial.timing = records::read_record<Timing>(json.at("timing"), "timing");
    if (!json.at("max_error").is_null()) trial.max_error = json.at("max_error").get<double>();
    trial.compile = read_report(json.at("compile"));
    trial.detail = json.at("detail").get<std::string>();
    return trial;
}

Json write(const Problem& problem) {
    Json json{{"op", problem.op},
              {"extents", Json::array()},
              {"attributes", Json::array()},
              {"tensors", Json::array()},
              {"scalars", Json::array()}};
    for (const Extent& extent : problem.extents) json["extents"].push_back({extent.name, extent.value});
    for (const Attribute& attribute : problem.attributes) json["attributes"].push_back(write_attribute(attribute));
    for (const Tensor& tensor : problem.tensors) json["tensors"].push_back(write_tensor(tensor));
    for (const Scalar& scalar : problem.scalars) json["scalars"].push_back(write_scalar(scalar));
    return json;
}

Problem read_problem(const Json& json) {
    Problem problem;
    problem.op = json.at("op").get<std::string>();
    for (const Json& e : json.at("extents")) problem.extents.push_back({e.at(0).get<std::string>(), e.at(1).get<std::int64_t>()});
    for (const Json& a : json.at("attributes")) problem.attributes.push_back(read_attribute(a));
    for (const Json& t : json.at("tensors")) problem.tensors.push_back(read_tensor(t));
    for (const Json& s : json.at("scalars")) problem.scalars.push_back(read_scalar(s));
    return problem;
}

Json write(const Device& device) {
    const DeviceIdentity& id = device.identity;
    const DeviceLimits& limits = device.limits;
    return {{"identity", {id.cc_major, id.cc_minor, id.sm_count, id.l2_mib, id.memory_gib, id.bus_bits}},
            {"name", id.name},
            {"limits",
             {limits.smem_per_block_bytes, limits.smem_per_sm_bytes, limits.registers_per_sm, limits.registers_per_block,
              limits.threads_per_block, limits.threads_per_sm, limits.blocks_per_sm}},
            {"clock_mhz", device.clock_mhz},
            {"memory_gb_per_s", device.memory_gb_per_s}};
}

Device read_device(const Json& json) {
    const auto id = json.at("identity").get<std::vector<int>>();
    const auto limits = json.at("limits").get<std::vector<int>>();
    check(id.size() == 6 && limits.size() == 7, "a device of another version in a message");
    Device device;
    device.identity = {id[0], id[1], id[2], id[3], id[4], id[5], json.at("name").get<std::string>()};
    device.limits = {limits[0], limits[1], limits[2], limits[3], limits[4], limits[5], limits[6]};
    device.clock_mhz = json.at("clock_mhz").get<double>();
    device.memory_gb_per_s = json.at("memory_gb_per_s").get<double>();
    return device;
}

Json write(const jit::Rendered& rendered) {
    return {{"symbol", rendered.symbol},
            {"identity", rendered.identity},
            {"source", rendered.source},
            {"headers", rendered.headers},
            {"options", rendered.options},
            {"arch", rendered.arch},
            {"kernel_names", rendered.kernel_names}};
}

jit::Rendered read_rendered(const Json& json) {
    jit::Rendered rendered;
    rendered.symbol = json.at("symbol").get<std::string>();
    rendered.identity = json.at("identity").get<std::string>();
    rendered.source = json.at("source").get<std::string>();
    rendered.headers = json.at("headers").get<std::vector<std::pair<std::string, std::string>>>();
    rendered.options = json.at("options").get<std::vector<std::string>>();
    rendered.arch = json.at("arch").get<std::string>();
    rendered.kernel_names = json.at("kernel_names").get<std::vector<std::pair<std::string, std::string>>>();
    return rendered;
}

}  // namespace autotune::tuner::wire
