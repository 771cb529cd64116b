// What the engine's tests start as another process. Words on the command line say what to do; a
// line for each fact goes to standard output. Options come from the environment.
#define DOCTEST_CONFIG_IMPLEMENT
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <clocale>
#include <iostream>
#include <locale>
#include <thread>

#include "compile/compiler.h"
#include "support.h"
#include "tilec/buffer.h"

namespace tilec::test {
namespace {

using Words = std::map<std::string, std::string>;

Words words_of(int argc, char** argv) {
  Words words;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    words[word.substr(0, equals)] = equals == std::string::npos ? "yes" : word.substr(equals + 1);
  }
  return words;
}

Device device_of(const Words& words) {
  const std::string name = words.contains("device") ? words.at("device") : "sm_80";
  if (name.starts_with("sm_") || name.starts_with("compute_")) return offline(name.c_str());
  return Device::named(name);
}

void tell(const Error& error) {
  std::cout << "error=" << to_string(error.kind()) << ": " << error.what() << "\n";
}

bool mapped(const std::string& library) {
  return contains(read_text("/proc/self/maps"), library);
}

// A locale that writes 1234.5 as 1.234,5.
struct Comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

void wait_for_the_others() {
  std::cout << "ready" << std::endl;
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
}

// plan [device=…] [barrier] [locale=comma] [number=…] [header=…] [template=…]: plans a small Add,
// which may include a header, or a GEMM of a shipped template.
int plan(const Words& words) {
  if (words.contains("locale")) {
    std::locale::global(std::locale(std::locale(), new Comma));
    setlocale(LC_ALL, "");
  }
  const auto word = [&](const char* name) {
    return words.contains(name) ? words.at(name) : std::string();
  };
  try {
    const Engine engine(device_of(words));
    KernelTemplate kernel = small_add();
    if (words.contains("header")) {
      kernel.source = "#include <" + word("header") + ">\n" + kernel.source;
    }
    engine.register_template(kernel);
    if (words.contains("barrier")) wait_for_the_others();
    PlanInfo info;
    if (words.contains("template")) {
      info =
          engine.plan(GemmProblem{.M = 64, .N = 64, .K = 64}, {.template_name = word("template")})
              .info();
    } else {
      const int number = words.contains("number") ? std::stoi(word("number")) : 1;
      info = engine
                 .plan(AddProblem{.shape = {100}},
                       {.template_name = "small_add", .parameters = {{"NUMBER", number}}})
                 .info();
    }
    std::cout << "origin=" << to_string(info.origin) << "\nkey=" << info.launches[0].key
              << "\nbuilder=" << info.launches[0].builder << "\ntarget=" << info.launches[0].target
              << "\npath=" << info.origin_path << "\n";
    const Stats stats = engine.stats();
    std::cout << "compiles=" << stats.compiles << "\n";
    for (const std::string& problem : engine.cache_problems()) {
      std::cout << "problem=" << problem << "\n";
    }
  } catch (const Error& error) {
    tell(error);
  }
  std::cout << "nvrtc=" << mapped("libnvrtc") << "\ndriver=" << mapped("libcuda.so") << "\n";
  return 0;
}

// options: what the environment gives, and an engine made with it.
int options(const Words&) {
  std::cout << "secure=" << getauxval(AT_SECURE) << std::endl;
  const Options options = Options::from_env();
  std::cout << "cache=" << options.cache_dir.string() << "\nmax_bytes=" << options.cache_max_bytes
            << "\nnvrtc=" << options.nvrtc.library.string()
            << "\nhost_compiler=" << options.host_compiler.string()
            << "\ndump=" << options.dump_dir.string() << "\nrecord=" << options.record.string()
            << "\nbuilder=" << options.require_builder << "\n";
  for (const auto* paths : {&options.read_only_roots, &options.bundle_files, &options.trust_shared,
                            &options.nvrtc.toolkits}) {
    for (const fs::path& path : *paths) std::cout << "path=" << path.string() << "\n";
  }
  std::cout.flush();
  Options without_cache = options;
  without_cache.cache_policy = CachePolicy::off;
  const Engine engine(offline(), without_cache);
  return 0;
}

// The ways to a GPU, and what each says where there is none.
int cuda(const Words&) {
  const std::function<void()> ways[] = {[] { Device::cuda(0); }, [] { Device::first_cuda(); },
                                        [] { Engine(); }, [] { Device::named("cuda"); },
                                        [] { Device::named("cuda:0"); }};
  for (const auto& way : ways) {
    try {
      way();
      std::cout << "no error\n";
    } catch (const Error& error) {
      tell(error);
    }
  }
  return 0;
}

// busy: what a GPU that gives no context says, and when.
int busy(const Words&) {
  try {
    const Device device = Device::cuda(0);
    std::cout << device.name() << "\n";
    device.allocate(8);
  } catch (const Error& error) {
    tell(error);
  }
  return 0;
}

// fork hold=FILE: forks while another thread is opening the driver, which it does until the file is
// removed.
int fork_while_opening(const Words& words) {
  const fs::path hold = words.at("hold");
  std::thread opening([] { Device::cuda(0); });
  while (!fs::exists(hold)) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    try {
      Device::cuda(0);
      std::cout << "no error" << std::endl;
    } catch (const Error& error) {
      std::cout << "in the child: " << error.what() << std::endl;
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  fs::remove(hold);
  opening.join();
  std::cout << "status " << status << ", the parent has " << Device::cuda(0).name() << "\n";
  return 0;
}

// compile: a kernel for the host device, by whichever compiler is found.
int compile(const Words&) {
  try {
    const CompileRequest request{
        .source = {.text = "struct Args {};\n"
                           "extern \"C\" __global__ void kernel(Args) {}\n",
                   .entry = "kernel",
                   .headers = {},
                   .toolkit_headers = {}},
        .target = Target::host(),
        .options = {},
        .name = "a kernel"};
    std::cout << "builder=" << host_compiler({})->compile(request).builder << "\n";
  } catch (const Error& error) {
    tell(error);
  }
  return 0;
}

// An engine and a plan that die with the program's other static objects.
int static_objects(const Words& words) try {
  static const Engine engine(device_of(words));
  engine.register_template(small_add());
  [[maybe_unused]] static const Add add =
      engine.plan(AddProblem{.shape = {100}}, {.template_name = "small_add"});
  static const Gemm gemm =
      engine.plan(GemmProblem{.M = 8, .N = 8, .K = 8}, {.template_name = "gemm_naive"});
  if (engine.device().can_run()) {
    static const DeviceBuffer<float> factors(engine.device(), std::size_t{64});
    static const DeviceBuffer<float> product(engine.device(), std::size_t{64});
    gemm.run(factors.data(), factors.data(), product.data());
    engine.device().synchronize();
  }
  return 0;
} catch (const Error& error) {
  tell(error);
  return 1;
}

// Lets a kernel write where nothing is, waits for it, and launches another.
int fault(const Words&) {
  const Engine engine(Device::first_cuda());
  const Add add = engine.plan(AddProblem{.shape = {100}});
  const auto launch = [&] {
    float* const nowhere = reinterpret_cast<float*>(std::uintptr_t{1} << 20);
    add.run(nowhere, nowhere, nowhere);
  };
  try {
    launch();
    engine.device().synchronize();
  } catch (const Error& error) {
    tell(error);
  }
  try {
    launch();
  } catch (const Error& error) {
    std::cout << "second ";
    tell(error);
  }
  return 0;
}

}  // namespace
}  // namespace tilec::test

int main(int argc, char** argv) {
  using namespace tilec::test;
  const std::string command = argc > 1 ? argv[1] : "";
  const Words words = words_of(argc, argv);
  if (command == "plan") return plan(words);
  if (command == "options") return options(words);
  if (command == "cuda") return cuda(words);
  if (command == "compile") return compile(words);
  if (command == "busy") return busy(words);
  if (command == "fork") return fork_while_opening(words);
  if (command == "static") return static_objects(words);
  if (command == "fault") return fault(words);
  std::cerr << "what is '" << command << "'?\n";
  return 2;
}
