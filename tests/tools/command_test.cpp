// The command as a user meets it: results on stdout, failures in a line on stderr, exit statuses,
// JSON everywhere, bad input that leaves nothing behind. Nothing is compiled here.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "process.h"

namespace tilec::test {
namespace {

using nlohmann::json;

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

struct Bad {
  std::vector<std::string> arguments;
  int status;
  std::string says;
};

std::vector<Bad> bad_inputs() {
  return {
      {{}, 2, "needs a subcommand"},
      {{"rnu"}, 2, "did you mean run?"},
      {{"run"}, 2, "gemm or add"},
      {{"run", "mul", "1"}, 2, "it has gemm or add"},
      {{"run", "gemm", "1", "2"}, 2, "K is required"},
      {{"run", "gemm", "1", "2", "3", "4"}, 2, "takes no '4'"},
      {{"run", "gemm", "1", "2", "x"}, 2, "K = 'x'"},
      {{"run", "gemm", "1", "2", "-3"}, 2, "K = '-3'"},
      {{"run", "gemm", "1", "2", "1e3"}, 2, "K = '1e3'"},
      {{"run", "gemm", "1", "2", "99999999999999999999"}, 2, "K = "},
      {{"run", "gemm", "1", "2", "3", "--dtpye", "f16"}, 2, "did you mean --dtype?"},
      {{"run", "gemm", "1", "2", "3", "--dtype"}, 2, "--dtype"},
      {{"run", "gemm", "1", "2", "3", "--dtype", "f8"}, 2, "dtypes are f32, f64"},
      {{"run", "gemm", "1", "2", "3", "--device", "gpu"}, 2, "'gpu' is not a device"},
      {{"run", "gemm", "1", "2", "3", "--device", "host", "--template", "nope"}, 2, "gemm_regn"},
      {{"run", "gemm", "1", "2", "3", "--device", "host", "--template", "add_tiled"}, 2, "add"},
      {{"run", "gemm", "1", "2", "3", "--device", "host", "--set", "TILE"}, 2, "NAME=VALUE"},
      {{"run", "gemm", "1", "2", "3", "--device", "host", "--set", "TILE=x"}, 2, "TILE = 'x'"},
      {{"run", "gemm", "1", "2", "3", "--device", "host", "--set", "TILE=7", "--set", "TN=2"},
       2,
       "divide"},
      {{"run", "gemm", "1", "2", "3", "--device", "host", "--set", "TILE=9999"},
       2,
       "allowed: 1 to 1024"},
      {{"run", "gemm", "1", "2", "3", "--device", "host", "--set", "SIZE=9"}, 2, "SIZE"},
      {{"run", "gemm", "2", "2", "3", "--device", "host", "--lda", "2"}, 2, "lda = 2"},
      {{"run", "gemm", "1", "2", "3", "--device", "host", "--repeat", "0"}, 2, "--repeat"},
      {{"run", "gemm", "1", "2", "3", "--device", "host", "--seed", "-1"}, 2, "--seed"},
      {{"run", "gemm", "9999999999", "9999999999", "1", "--device", "host"},
       2,
       "over 2^59 elements"},
      {{"run", "add", "1x2x3x4x5", "--device", "host"}, 2, "one to four extents"},
      {{"run", "add", "5", "--alpha", "2"}, 2, "unknown option --alpha"},
      {{"source", "gemm", "1", "2", "3", "--arch", "sm_1"}, 2, "targets look like"},
      {{"source", "gemm", "1", "2", "3", "--arch", "sm_80,sm_90"}, 2, "one --arch"},
      {{"source", "gemm", "1", "2", "3", "--device", "./missing.json"}, 2, "can't be read"},
      {{"build"}, 2, "name what to build for"},
      {{"build", "--arch", "sm_80", "--gemm", "1,2"}, 2, "M,N,K"},
      {{"build", "--arch", "sm_80", "--add", "1,f9"}, 2, "dtypes are"},
      {{"build", "--arch", "sm_80,sm_70"}, 2, "sm_70: the least target that tilec's kernels serve"},
      {{"build", "--arch", "sm_89a"}, 2, "begin with sm_90a"},
      {{"build", "--arch", "sm_80", "--shard", "3/2"}, 2, "from 1 to 2"},
      {{"build", "--arch", "sm_80", "-j", "0"}, 2, "-j"},
      {{"build", "--arch", "sm_80", "--time-limit", "-1"}, 2, "--time-limit"},
      {{"build", "--arch", "sm_80", "--template", "gemm_regn"}, 2, "--gemm and --add"},
      {{"build", "--arch", "sm_80", "--cache-policy", "off"}, 2, "fills the cache"},
      {{"build", "--arch", "sm_80", "missing.json"}, 2, "missing.json: can't be read"},
      {{"build", "--device", "h201", "--add", "1"}, 2, "did you mean h200"},
      {{"cache"}, 2, "ls"},
      {{"cache", "lss"}, 2, "did you mean ls?"},
      {{"cache", "show"}, 2, "key is required"},
      {{"cache", "show", "xyz"}, 2, "not a key"},
      {{"cache", "show", "../../../etc/passwd"}, 2, "not a key"},
      {{"cache", "show", "0123456789abcdef0123456789abcdef0"}, 2, "not a key"},
      {{"cache", "show", "0123456789ABCDEF0123456789ABCDEF"}, 2, "not a key"},
      {{"cache", "show", "0123456789abcdef0123456789abcdef"}, 1, "there is no entry"},
      {{"cache", "show", "0123"}, 1, "no entry's key begins"},
      {{"cache", "ls", "--key", "../x"}, 2, "not a key"},
      {{"cache", "ls", "--target", "gfx90a"}, 2, "targets look like"},
      {{"cache", "ls", "--builder", "../x"}, 2, "--builder"},
      {{"cache", "ls", "--kind", "elf"}, 2, "cubin, ptx or host"},
      {{"cache", "clear", "--key", "12"}, 2, "not a key"},
      {{"cache", "prune", "--max-size", "big"}, 2, "--max-size = 'big' is not a size"},
      {{"cache", "prune", "--max-size", "0"}, 2, "tilec cache clear"},
      {{"cache", "prune", "--max-size", "0M"}, 2, "tilec cache clear"},
      {{"cache", "import", "missing.tilec"}, 1, "missing.tilec"},
      {{"cache", "export", "no/such/folder/b.tilec"}, 1, "nothing was exported"},
      {{"cache", "ls", "--cache-policy", "sometimes"}, 2, "normal, must_hit, refresh or off"},
  };
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
}

}  // namespace

TEST_SUITE("cpu") {
  TEST_CASE("bad input: the status, one line that helps, nothing on stdout, nothing left behind") {
    for (const Bad& bad : bad_inputs()) {
      CAPTURE(joined(bad.arguments));
      const Sandbox sandbox;
      const Ran ran = sandbox.tilec(bad.arguments);
      CAPTURE(ran.err);
      CHECK(ran.status == bad.status);
      CHECK(ran.out.empty());
      CHECK(lines(ran.err) == 1);
      CHECK(ran.err.rfind("tilec: ", 0) == 0);
      CHECK(contains(ran.err, bad.says));
      CHECK(sandbox.entries().empty());
      CHECK(sandbox.leftovers().empty());
    }
  }

  TEST_CASE("the same with --json: one document that holds the error") {
    for (const Bad& bad : bad_inputs()) {
      CAPTURE(joined(bad.arguments));
      const Sandbox sandbox;
      std::vector<std::string> arguments = bad.arguments;
      // An option that lacks its value would take the flag for it.
      if (!arguments.empty() && arguments.back() == "--dtype") continue;
      arguments.emplace_back("--json");
      const Ran ran = sandbox.tilec(arguments);
      CHECK(ran.status == bad.status);
      const json document = json::parse(ran.out, nullptr, false);
      REQUIRE(document.is_object());
      CHECK(document.size() == 1);
      CHECK(document["error"]["exit_status"] == bad.status);
      CHECK_FALSE(document["error"]["kind"].get<std::string>().empty());
      CHECK(contains(document["error"]["message"].get<std::string>(), bad.says));
    }
  }

  TEST_CASE("a message is one line, whatever is typed") {
    const Sandbox sandbox;
    const Ran ran = sandbox.tilec({"run", "gemm", "1", "2", "3\n\x1b[31mred"});
    CHECK(ran.status == 2);
    CHECK(lines(ran.err) == 1);
    CHECK(contains(ran.err, "\\x1b[31m"));
    // Bytes that are no UTF-8 do not break the JSON.
    CHECK(json::parse(sandbox.tilec({"run", "gemm", "1", "2", "\xff\xfe", "--json"}).out, nullptr,
                      false)
              .is_object());
  }

  TEST_CASE("--help of every subcommand is for stdout, and succeeds") {
    const std::vector<std::vector<std::string>> all{{},
                                                    {"info"},
                                                    {"build"},
                                                    {"run"},
                                                    {"run", "gemm"},
                                                    {"run", "add"},
                                                    {"source"},
                                                    {"source", "gemm"},
                                                    {"cache"},
                                                    {"cache", "ls"},
                                                    {"cache", "show"},
                                                    {"cache", "path"},
                                                    {"cache", "stats"},
                                                    {"cache", "why"},
                                                    {"cache", "verify"},
                                                    {"cache", "clear"},
                                                    {"cache", "prune"},
                                                    {"cache", "export"},
                                                    {"cache", "import"}};
    const Sandbox sandbox;
    for (std::vector<std::string> arguments : all) {
      CAPTURE(joined(arguments));
      arguments.emplace_back("--help");
      const Ran ran = sandbox.tilec(arguments);
      CHECK(ran.status == 0);
      CHECK(ran.err.empty());
      CHECK(contains(ran.out, "Usage: tilec"));
      CHECK(contains(ran.out, "--json"));
      CHECK_FALSE(contains(ran.out, "worker process"));
    }
  }

  TEST_CASE("--version") {
    const Sandbox sandbox;
    const Ran ran = sandbox.tilec({"--version"});
    CHECK(ran.status == 0);
    CHECK(ran.out.rfind("tilec ", 0) == 0);
  }

  TEST_CASE("info lists devices, templates and facts, and works with a broken cache") {
    const Sandbox sandbox;
    const json info = sandbox.json({"info"});
    CHECK(info["version"].is_string());
    CHECK(info["cuda"]["available"].is_boolean());
    CHECK(info["nvrtc"]["available"].is_boolean());
    CHECK(info["host_device"]["available"].is_boolean());
    CHECK(info["cache"]["path"] == sandbox.cache().string());
    CHECK(info["cache"]["problems"].empty());
    std::set<std::string> templates, devices;
    for (const json& one : info["templates"]) {
      templates.insert(one["name"].get<std::string>());
      for (const json& parameter : one["parameters"]) {
        for (const char* field : {"name", "meaning", "allowed"})
          CHECK(parameter[field].is_string());
        CHECK(parameter["default"].size() == one["dtypes"].size());
      }
    }
    for (const json& one : info["device_facts"]) devices.insert(one["name"].get<std::string>());
    CHECK(templates.count("gemm_regn") == 1);
    CHECK(templates.count("add_tiled") == 1);
    CHECK(devices.count("h200") == 1);

    sandbox.file("cache_is_a_file", "");
    const Ran broken =
        sandbox.tilec({"info", "--cache-dir", (sandbox.path() / "cache_is_a_file").string()});
    CHECK(broken.status == 0);
    CHECK(contains(broken.out, "cache_is_a_file"));
  }

  TEST_CASE("the facts that info prints can be handed back as a device") {
    Sandbox sandbox;
    json facts = sandbox.json({"info"})["device_facts"][0];
    facts["name"] = "mine";
    const std::string file = sandbox.file("gpu.json", facts.dump());
    const json source = sandbox.json({"source", "add", "100", "--device", file});
    CHECK(source["target"] == facts["target"]);
  }

  TEST_CASE("options of every subcommand stand before and after its name") {
    const Sandbox sandbox;
    const std::string other = (sandbox.path() / "other").string();
    CHECK(sandbox.tilec({"cache", "path"}).out == sandbox.cache().string() + "\n");
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"--cache-dir", other, "cache", "path"},
          {"cache", "--cache-dir", other, "path"},
          {"cache", "path", "--cache-dir", other}}) {
      CHECK(sandbox.tilec(arguments).out == other + "\n");
    }
    CHECK(json::parse(sandbox.tilec({"--json", "cache", "path"}).out)["path"] ==
          sandbox.cache().string());
  }

  TEST_CASE("source prints the rendered text, its headers, its key") {
    const Sandbox sandbox;
    const std::vector<std::string> base{"source",  "gemm",  "64",         "64",        "64",
                                        "--arch",  "sm_80", "--template", "gemm_regn", "--set",
                                        "TILE=24", "--set", "TN=3"};
    const auto with = [&](std::vector<std::string> more) {
      std::vector<std::string> all = base;
      all.insert(all.end(), more.begin(), more.end());
      return sandbox.tilec(all);
    };
    const Ran text = with({});
    CHECK(text.status == 0);
    CHECK(contains(text.out, "constexpr int TILE = 24;"));
    CHECK(contains(text.out, "#line 1 \"/tilec/gemm_regn.cu\""));
    CHECK_FALSE(contains(text.out, "==== tilec/numeric.h"));
    CHECK(contains(with({"--headers"}).out, "==== tilec/numeric.h"));
    const std::string key = with({"--key"}).out;
    CHECK(key.size() == 33);
    CHECK(with({"--key", "--dtype", "f16"}).out != key);
    const json document = json::parse(with({"--json"}).out);
    CHECK(document["key"].get<std::string>() + "\n" == key);
    CHECK(document["parameters"]["TILE"] == 24);
    CHECK(document["source"].get<std::string>() == text.out);
    CHECK(sandbox.entries().empty());
  }

  TEST_CASE("a bound of 0 is none, and is printed so") {
    Sandbox sandbox;
    for (const char* size : {"0", "0M", "0 GiB"}) {
      sandbox.set("TILEC_CACHE_MAX_BYTES", size);
      CHECK(contains(sandbox.tilec({"cache", "stats"}).out, "no bound"));
      CHECK(contains(sandbox.tilec({"info"}).out, "no bound"));
      CHECK(sandbox.json({"cache", "stats"})["max_bytes"] == 0);
    }
    sandbox.set("TILEC_CACHE_MAX_BYTES", "512 mb");
    CHECK(contains(sandbox.tilec({"cache", "stats"}).out, "at most 512.0 MiB"));
    sandbox.set("TILEC_CACHE_MAX_BYTES", "much");
    const Ran bad = sandbox.tilec({"cache", "stats"});
    CHECK(bad.status != 0);
    CHECK(contains(bad.err, "TILEC_CACHE_MAX_BYTES = 'much' is not a size"));
  }

  TEST_CASE("paths on the command line are what they are in variables") {
    Sandbox sandbox;
    const auto path = [&](const std::string& typed) {
      return sandbox.tilec({"cache", "path", "--cache-dir=" + typed}).out;
    };
    const std::string home = sandbox.path().string() + "/home";
    sandbox.set("HOME", home);
    CHECK(path("~/k") == home + "/k\n");
    CHECK(path("~") == home + "\n");
    CHECK(path("k/l") == (sandbox.path() / "k/l").string() + "\n");
    for (const char* flag : {"--cache-dir", "--read-only-root", "--bundle", "--trust-shared",
                             "--nvrtc", "--host-compiler", "--dump-dir"}) {
      const Ran ran = sandbox.tilec({"cache", "path", std::string(flag) + "=~someone/k"});
      CHECK(ran.status == 2);
      CHECK_MESSAGE(contains(ran.err, std::string(flag) + " = '~someone/k'"), ran.err);
    }
  }

  TEST_CASE("a key depends on no locale") {
    Sandbox sandbox;
    const std::vector<std::string> arguments{"source", "gemm",   "64",    "64",
                                             "64",     "--arch", "sm_80", "--key"};
    const std::string key = sandbox.tilec(arguments).out;
    for (const char* locale : {"de_DE.UTF-8", "tr_TR.UTF-8", "C.UTF-8", "nonsense"}) {
      sandbox.set("LC_ALL", locale);
      CHECK(sandbox.tilec(arguments).out == key);
      CHECK(sandbox.tilec({"cache", "prune", "--max-size", "1.5G"}).status == 0);
      CHECK(sandbox.tilec({"cache", "prune", "--max-size", "1,5G"}).status == 2);
    }
  }

  TEST_CASE("shards share nothing and leave nothing out") {
    const Sandbox sandbox;
    const auto keys = [&](const std::string& shard) {
      std::multiset<std::string> found;
      const json report = sandbox.json(
          {"build", "--arch", "sm_80,sm_90a", "--device", "l4", "--dry-run", "--shard", shard});
      for (const json& kernel : report["kernels"]) found.insert(kernel["key"].get<std::string>());
      CHECK(report["total"] == found.size());
      return found;
    };
    const std::multiset<std::string> whole = keys("1/1");
    CHECK(whole.size() > 30);
    CHECK(std::set<std::string>(whole.begin(), whole.end()).size() == whole.size());
    for (const int count : {2, 7, 1000}) {
      std::multiset<std::string> together;
      std::size_t most = 0, least = whole.size();
      for (int i = 1; i <= std::min(count, 100); ++i) {
        const auto part = keys(std::to_string(i) + "/" + std::to_string(count));
        together.insert(part.begin(), part.end());
        most = std::max(most, part.size());
        least = std::min(least, part.size());
      }
      CHECK(together == whole);
      CHECK(most - least <= 1);
    }
    CHECK(sandbox.entries().empty());
  }

  TEST_CASE("a manifest from a file and from the standard input give the same work") {
    const Sandbox sandbox;
    const std::string manifest =
        R"({"problems": [{"op": "gemm", "M": [1, 64, 4096], "N": 4096, "K": {"from": 64, "to": 256, "step": 64},
                        "dtype": ["f16", "bf16"]}, {"op": "add", "shape": [[1024], [4, 4]]}],
          "archs": ["sm_80"], "devices": ["h200"]})";
    const json from_file = sandbox.json({"build", sandbox.file("m.json", manifest), "--dry-run"});
    const Ran piped = sandbox.tilec({"build", "-", "--dry-run", "--json"}, manifest);
    CHECK(json::parse(piped.out)["kernels"] == from_file["kernels"]);
    CHECK(from_file["dry_run"] == true);
    std::set<std::string> targets;
    for (const json& kernel : from_file["kernels"]) {
      targets.insert(kernel["target"].get<std::string>());
      CHECK(kernel["status"] == "missing");
    }
    CHECK(targets.size() == 2);
    // Targets on the command line take the place of the manifest's.
    const json other =
        sandbox.json({"build", sandbox.file("m.json", manifest), "--dry-run", "--arch", "sm_75"});
    for (const json& kernel : other["kernels"]) CHECK(kernel["target"] == "sm_75");
  }

  TEST_CASE(
      "an impossible kernel is a failure of its own, or left out where the manifest says so") {
    const Sandbox sandbox;
    const auto report = [&](const std::string& extra) {
      return sandbox.json(
          {"build", "--arch", "sm_80", "--dry-run",
           sandbox.file("m.json",
                        R"([{"op": "gemm", "M": 1, "N": 1, "K": 1, "template": "gemm_regn",
                                     "parameters": {"TILE": [16, 24], "TN": [4, 16]})" +
                            extra + "}]")});
    };
    const json strict = report("");
    CHECK(strict["total"] == 4);
    CHECK(strict["failed"] == 1);
    CHECK(strict["error"]["exit_status"] == 1);
    CHECK(report(R"(, "skip_impossible": true)")["total"] == 3);
    CHECK(report(R"(, "skip_impossible": true)")["failed"] == 0);
    // What is possible is built all the same, and the rest is listed.
    const Ran ran = sandbox.tilec(
        {"build", "--device", "host", "--json", sandbox.file("h.json", R"([{"op": "add", "n": 9,
                                     "template": "add_tiled", "parameters": {"TILE": [32, 100000]}}])")});
    CAPTURE(ran.err);
    CHECK(ran.status == 1);
    const json built = json::parse(ran.out);
    CHECK(built["built"] == 1);
    CHECK(built["failed"] == 1);
    CHECK(sandbox.entries().size() == 1);
  }

  TEST_CASE("an empty cache: every way to look at it says so") {
    const Sandbox sandbox;
    CHECK(sandbox.json({"cache", "ls"})["count"] == 0);
    CHECK_FALSE(std::filesystem::exists(sandbox.cache()));
    CHECK(sandbox.json({"cache", "stats"})["entries"] == 0);
    CHECK(sandbox.json({"cache", "verify"})["good"] == 0);
    CHECK(sandbox.json({"cache", "clear"})["removed"] == 0);
    CHECK(sandbox.json({"cache", "prune"})["removed_entries"] == 0);
    const json why = sandbox.json({"cache", "why", "gemm", "8", "8", "8", "--arch", "sm_80"});
    CHECK(why["hit"] == false);
    CHECK(why["misses"][0]["reason"] == "never built");
    CHECK(why["nearest"].empty());
  }

  TEST_CASE("a cache that can't be written is named, with what to do") {
    const Sandbox sandbox;
    const std::string file = sandbox.file("in_the_way", "");
    const Ran ran = sandbox.tilec({"build", "--arch", "sm_80", "--cache-dir", file});
    CHECK(ran.status == 1);
    CHECK(ran.out.empty());
    CHECK(contains(ran.err, "in_the_way"));
    CHECK(contains(ran.err, "--cache-dir"));
    CHECK(lines(ran.err) == 1);
  }

  TEST_CASE("a folder of the user's is refused as the cache, and left as it was") {
    Sandbox sandbox;
    const std::string notes = sandbox.file("notes.txt", "precious");
    sandbox.set("TILEC_CACHE_DIR", sandbox.path().string());
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"cache", "clear"},
             {"cache", "prune", "--max-size", "1"},
             {"cache", "verify", "--repair"},
             {"cache", "import", TILEC_CACHE_CORPUS "/bundle/three"},
             {"build", "--arch", "sm_80"}}) {
      CAPTURE(joined(arguments));
      const Ran ran = sandbox.tilec(arguments);
      CHECK(ran.status == 1);
      CHECK(contains(ran.err, "is not used: it holds "));
      CHECK(contains(ran.err, "TILEC_CACHE_DIR"));
      CHECK(lines(ran.err) == 1);
    }
    CHECK(std::filesystem::file_size(notes) == 8);
    CHECK_FALSE(std::filesystem::exists(sandbox.path() / "tilec-cache"));
    CHECK_FALSE(std::filesystem::exists(sandbox.path() / "usage"));
  }

  TEST_CASE("import counts what is there at the end, and fails where that is not all") {
    Sandbox sandbox;
    const std::vector<std::string> import{"cache", "import", TILEC_CACHE_CORPUS "/bundle/three"};
    sandbox.set("TILEC_CACHE_MAX_BYTES", "1500");
    const Ran ran = sandbox.tilec(import);
    CHECK(ran.status == 1);
    CHECK(contains(ran.out, "2 entries imported"));
    CHECK(contains(ran.err, "1 of its 3 entries are not in the cache: it may hold 1500 bytes"));
    const json again = sandbox.json(import);
    CHECK(again["already_there"].get<int>() + again["entries"].get<int>() == 2);
    CHECK(again["missing"] == 1);
    CHECK(again["error"]["exit_status"] == 1);
    const std::string needed = std::to_string(again["needed_bytes"].get<int>());
    CHECK(contains(ran.err, "TILEC_CACHE_MAX_BYTES=" + needed));
    sandbox.set("TILEC_CACHE_MAX_BYTES", needed);
    CHECK(sandbox.tilec(import).status == 0);
    CHECK(sandbox.json(import)["already_there"] == 3);
  }

  TEST_CASE("results that can't be written are a failure") {
    const Sandbox sandbox;
    // /dev/full takes no byte.
    const std::string command =
        std::string(TILEC_COMMAND) + " info > /dev/full 2> " + (sandbox.path() / "err").string();
    const int status = std::system(command.c_str());
    CHECK(WEXITSTATUS(status) == 1);
    CHECK(contains(read_file(sandbox.path() / "err"), "could not be written"));
  }

  TEST_CASE("without a GPU, run says so and names the host device") {
    Sandbox sandbox;
    sandbox.set("CUDA_VISIBLE_DEVICES", "-1");
    const Ran ran = sandbox.tilec({"run", "add", "10"});
    CHECK(ran.status == 1);
    CHECK(contains(ran.err, "--device host"));
  }
}

}  // namespace tilec::test
