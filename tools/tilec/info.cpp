// tilec info: what is here to work with, and what is missing.
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "command.h"
#include "facts_json.h"
#include "format.h"
#include "output.h"
#include "tilec/engine.h"
#include "tilec/toolchain.h"

namespace tilec::command {
namespace {

// One device, without a context on it; or why it can't be told of.
Json device_json(int ordinal) {
  Json json{{"device", fmt::format("cuda:{}", ordinal)}};
  try {
    const Device device = Device::cuda(ordinal);
    json["name"] = device.name();
    json["facts"] = to_json(device.facts());
    if (!device.note().empty()) json["note"] = device.note();
  } catch (const Error& error) {
    json["reason"] = error.what();
  }
  return json;
}

Json cuda_json() {
  Json json{{"available", false}, {"devices", Json::array()}};
  try {
    const int count = Device::cuda_count();
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      Json device = device_json(ordinal);
      if (device.contains("facts")) json["available"] = true;
      json["devices"].push_back(std::move(device));
    }
    if (count == 0) Device::first_cuda();  // says what to do without
  } catch (const Error& error) {
    json["reason"] = error.what();
  }
  return json;
}

// Whether the host device is there, and whether its compiler is: a key needs no compiler.
Json host_json(const Options& options) {
  try {
    const Device host = Device::host();
    return {{"available", true},
            {"target", host.target().name()},
            {"compiler", options.host_compiler.empty() ? "c++, g++ or clang++, whichever is there"
                                                       : options.host_compiler.string()}};
  } catch (const Error& error) {
    return {{"available", false}, {"reason", error.what()}};
  }
}

Json nvrtc_json(const Options& options) {
  try {
    const NvrtcFound found = find_nvrtc(options.nvrtc);
    std::vector<std::string> archs;
    for (const Target& target : found.targets()) archs.push_back(target.name());
    return {{"available", true},
            {"path", found.path.string()},
            {"version", fmt::format("{}.{}", found.major, found.minor)},
            {"archs", archs}};
  } catch (const Error& error) {
    return {{"available", false}, {"reason", error.what()}};
  }
}

Json template_json(const KernelTemplate& kernel) {
  Json types = Json::array(), parameters = Json::array();
  for (const DType T : kernel.dtypes) types.push_back(info(T).name);
  for (const Parameter& parameter : kernel.parameters) {
    parameters.push_back({{"name", parameter.name},
                          {"meaning", parameter.meaning},
                          {"allowed", parameter.allowed.text()},
                          {"default", Json::object()}});
  }
  for (const DType T : kernel.dtypes) {
    Parameters before;
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
      const Parameter& parameter = kernel.parameters[i];
      const Value value = parameter.default_value(T, before);
      before.emplace(parameter.name, value);
      parameters[i]["default"][std::string(info(T).name)] = value.text();
    }
  }
  return {{"name", kernel.name},
          {"operation", to_string(kernel.operation)},
          {"dtypes", types},
          {"least_target", fmt::format("sm_{}", kernel.least_sm)},
          {"chosen_by_itself", !kernel.candidates.empty()},
          {"parameters", parameters}};
}

Json info_json(const Options& options) {
  // Needs no GPU: an offline device is enough to open the cache and list the templates.
  const Engine engine(Device::offline(Target::parse("sm_80")), without_log(options));
  Json templates = Json::array(), facts = Json::array(), types = Json::array();
  for (const KernelTemplate& kernel : engine.templates())
    templates.push_back(template_json(kernel));
  for (const DeviceFacts& device : shipped_device_facts()) facts.push_back(to_json(device));
  for (const DTypeInfo& type : dtypes()) types.push_back(type.name);
  return {{"version", TILEC_VERSION},
          {"cuda", cuda_json()},
          {"host_device", host_json(options)},
          {"nvrtc", nvrtc_json(options)},
          {"cache",
           {{"path", options.cache_dir.string()},
            {"max_bytes", options.cache_max_bytes},
            {"problems", engine.cache_problems()}}},
          {"dtypes", types},
          {"templates", templates},
          {"device_facts", facts}};
}

std::string join(const Json& list) {
  return fmt::format("{}", fmt::join(list.get<std::vector<std::string>>(), ", "));
}

// "32", or "4 (f64: 2)" where dtypes differ.
std::string default_text(const Json& by_type) {
  std::map<std::string, std::vector<std::string>> types;
  for (const auto& [type, value] : by_type.items()) types[value].push_back(type);
  if (types.size() == 1) return types.begin()->first;
  std::string text;
  for (const auto& [value, names] : types) {
    text += fmt::format("{}{} for {}", text.empty() ? "" : ", ", value, fmt::join(names, " "));
  }
  return text;
}

std::string devices_text(const Json& json) {
  std::string text;
  for (const Json& device : json["cuda"]["devices"]) {
    if (device.contains("reason")) {
      text += fmt::format("cuda          {}: {}\n", device["device"].get<std::string>(),
                          device["reason"].get<std::string>());
      continue;
    }
    const Json& facts = device["facts"];
    text += fmt::format("cuda          {}, {}, {} SMs, {} L2\n", device["name"].get<std::string>(),
                        facts["target"].get<std::string>(), facts["sm_count"].get<int>(),
                        human_bytes(facts["l2_bytes"].get<std::uint64_t>()));
    if (device.contains("note"))
      text += "              " + device["note"].get<std::string>() + "\n";
  }
  if (text.empty()) {
    text = fmt::format("cuda          none: {}\n", json["cuda"].value("reason", ""));
  }
  const Json& host = json["host_device"];
  return text +
         (host["available"].get<bool>()
              ? fmt::format("host device   {}, compiles with {}\n",
                            host["target"].get<std::string>(), host["compiler"].get<std::string>())
              : fmt::format("host device   none: {}\n", host.value("reason", "")));
}

std::string text(const Json& json) {
  std::string text = "tilec " + json["version"].get<std::string>() + "\n\n" + devices_text(json);
  const Json& nvrtc = json["nvrtc"];
  if (nvrtc["available"].get<bool>()) {
    text +=
        fmt::format("NVRTC         {}, {}\n              {}\n", nvrtc["version"].get<std::string>(),
                    nvrtc["path"].get<std::string>(), join(nvrtc["archs"]));
  } else {
    text += fmt::format("NVRTC         none: {}\n", nvrtc.value("reason", ""));
  }
  text += fmt::format("cache         {}, {}\n", json["cache"]["path"].get<std::string>(),
                      human_bound(json["cache"]["max_bytes"].get<std::uint64_t>()));
  for (const Json& problem : json["cache"]["problems"]) {
    text += "              " + problem.get<std::string>() + "\n";
  }
  text += "dtypes        " + join(json["dtypes"]) + "\n\ntemplates\n";
  for (const Json& kernel : json["templates"]) {
    text += fmt::format("  {} ({}; {}; {} and later)\n", kernel["name"].get<std::string>(),
                        kernel["operation"].get<std::string>(), join(kernel["dtypes"]),
                        kernel["least_target"].get<std::string>());
    std::vector<std::vector<std::string>> rows;
    for (const Json& parameter : kernel["parameters"]) {
      rows.push_back({"  " + parameter["name"].get<std::string>(),
                      parameter["meaning"].get<std::string>(),
                      "allowed " + parameter["allowed"].get<std::string>(),
                      "default " + default_text(parameter["default"])});
    }
    text += indented(table(rows), "  ");
  }
  text += "\ndevice facts, for --device\n";
  std::vector<std::vector<std::string>> rows;
  for (const Json& facts : json["device_facts"]) {
    rows.push_back({"  " + facts["name"].get<std::string>(), facts["target"].get<std::string>(),
                    fmt::format("{} SMs", facts["sm_count"].get<int>()),
                    fmt::format("{:g} GB/s", facts["memory_gb_s"].get<double>())});
  }
  return text + table(rows, {false, false, true, true});
}

int run(const GlobalFlags& global) {
  const Json json = info_json(global.options());
  if (global.json) {
    print_json(json);
  } else {
    print_text(text(json));
  }
  return kExitOk;
}

}  // namespace

void register_info(CLI::App& root, Invocation& invocation) {
  auto* app = root.add_subcommand("info", "Devices, compilers, cache and templates: what is here");
  app->callback([&invocation] { invocation.run = run; });
}

}  // namespace tilec::command
