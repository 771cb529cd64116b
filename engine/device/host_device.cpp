// The host device: a backend that runs kernels on the CPU, one fiber per CUDA thread, several
// blocks at a time on OS threads. Thread-safe; after a fork the child can go on using it.
#include <stdlib.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "device/backend.h"
#include "device/host_block.h"
#include "device/host_kernel.h"
#include "device/host_runner_pool.h"
#include "device/launch_shape.h"
#include "fork.h"
#include "tilec/error.h"

namespace tilec {
namespace {

using host::BlockRunner;
using host::HostKernel;
using host::KeptFloatingPoint;
using host::Launch;
using host::RunnerPool;

constexpr std::size_t kAlignment = 256;  // of allocations, as on a GPU

// Hands out the blocks of one launch, some at a time, in the order asked for.
class BlockQueue {
 public:
  BlockQueue(std::uint64_t blocks, int workers, HostOrder order, std::uint64_t seed)
      : blocks_(blocks),
        share_(std::clamp<std::uint64_t>(blocks / static_cast<std::uint64_t>(workers * 16), 1, 64)),
        order_(order) {
    if (order != HostOrder::random) return;
    // Multiples of a number that has no factor in common with their count: each block once.
    start_ = seed % blocks;
    step_ = (seed * 2 + blocks / 2 + 1) % blocks;
    while (std::gcd(step_, blocks) != 1) ++step_;
  }

  // Calls run(block) until there are no more or it returns false.
  template <class Run>
  void work(Run run) {
    for (;;) {
      const std::uint64_t first = next_.fetch_add(share_);
      for (std::uint64_t i = first; i < first + share_; ++i) {
        if (i >= blocks_ || !run(block(i))) return;
      }
    }
  }

 private:
  std::uint64_t block(std::uint64_t i) const {
    switch (order_) {
      case HostOrder::reversed:
        return blocks_ - 1 - i;
      case HostOrder::random:
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>(i) * step_ + start_) %
                                          blocks_);
      default:
        return i;
    }
  }

  std::uint64_t blocks_;
  std::uint64_t share_;
  HostOrder order_;
  std::uint64_t start_ = 0;
  std::uint64_t step_ = 1;
  std::atomic<std::uint64_t> next_ = 0;
};

// The first thing that went wrong in a launch, by any of its workers.
class FirstFault {
 public:
  void set(std::string text) {
    if (!taken_.exchange(true)) text_ = std::move(text);
  }
  explicit operator bool() const { return taken_.load(std::memory_order_relaxed); }
  const std::string& text() const { return text_; }  // once the workers have ended

 private:
  std::atomic<bool> taken_ = false;
  std::string text_;
};

// The host has the default streams only.
void expect_default(Stream stream) {
  const auto value = reinterpret_cast<std::uintptr_t>(stream);
  if (value <= 2) return;  // null, legacy, per thread
  throw Error(ErrorKind::invalid_argument,
              "the host device has no streams beside the default one: pass none");
}

DeviceFacts facts_of_host() {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  DeviceFacts facts;
  facts.name = "host";
  facts.target = Target::host().name();
  facts.sm_count = cores;
  facts.shared_bytes_block = Target::host().max_shared_bytes();
  facts.shared_bytes_sm = facts.shared_bytes_block;
  facts.threads_sm = BlockRunner::kMaxThreads;  // an OS thread runs one block at a time
  facts.blocks_sm = 1;
  facts.l2_bytes = 1 << 20;
  facts.memory_gb_s = 20;
  facts.clock_mhz = 3000;
  return facts;
}

HostOptions checked(const HostOptions& options) {
  if (options.threads >= 0) return options;
  throw Error(ErrorKind::invalid_argument, "HostOptions::threads is " +
                                               std::to_string(options.threads) +
                                               "; 0 (one per core) or more is allowed");
}

class HostBackend : public DeviceBackend {
 public:
  explicit HostBackend(const HostOptions& options) : options_(checked(options)) {}

  ~HostBackend() override {
    if (Table* const held = table_.load(); held->born == fork_generation()) delete held;
  }

  std::string name() const override { return "host"; }
  const Target& target() const override { return target_; }
  const DeviceFacts& facts() const override { return facts_; }
  bool can_run() const override { return true; }
  bool is_host() const override { return true; }

  std::shared_ptr<const LoadedKernel> load(const KernelImage& image,
                                           std::int64_t shared_bytes) override;
  void launch(const LoadedKernel& kernel, const LaunchShape& shape, const void* arguments,
              Stream stream) const override;
  void trim() override;

  void* allocate(std::size_t bytes) override;
  void release(void* pointer) noexcept override { free(pointer); }
  void copy_to_device(void* device, const void* host, std::size_t bytes, Stream stream) override;
  void copy_to_host(void* host, const void* device, std::size_t bytes, Stream stream) override;
  void fill(void* device, unsigned char byte, std::size_t bytes, Stream stream) override;
  void synchronize(Stream stream) override { expect_default(stream); }

 private:
  using Kernels = std::map<std::pair<std::string, std::string>, std::shared_ptr<const HostKernel>>;

  // A child that was forked while another thread held a lock would wait for it forever: each
  // process has a table of its own.
  struct Table {
    const std::uint64_t born = fork_generation();
    std::mutex mutex;  // of the kernels
    Kernels kernels;   // by id and entry
  };

  Table& table();
  int workers(const LaunchShape& shape, std::uint64_t blocks) const;
  void run_blocks(const Launch& launch, BlockQueue& queue, FirstFault& fault,
                  bool own_thread) const;

  const HostOptions options_;
  const Target target_ = Target::host();
  const DeviceFacts facts_ = facts_of_host();
  std::atomic<Table*> table_{new Table};
};

HostBackend::Table& HostBackend::table() {
  Table* held = table_.load();
  if (held->born == fork_generation()) return *held;
  auto fresh = std::make_unique<Table>();
  // The parent's is left as it is: another thread may have held its lock.
  if (table_.compare_exchange_strong(held, fresh.get())) held = fresh.release();
  return *held;
}

std::shared_ptr<const LoadedKernel> HostBackend::load(const KernelImage& image,
                                                      std::int64_t shared_bytes) {
  if (shared_bytes > target_.max_shared_bytes()) {
    throw Error(ErrorKind::unsupported, image.message + " needs " + std::to_string(shared_bytes) +
                                            " bytes of shared memory; the host device gives " +
                                            std::to_string(target_.max_shared_bytes()));
  }
  Table& here = table();
  const std::lock_guard lock(here.mutex);
  std::shared_ptr<const HostKernel>& kernel = here.kernels[{image.id, image.entry}];
  if (kernel == nullptr) {
    try {
      kernel = std::make_shared<const HostKernel>(image, BlockRunner::calls());
    } catch (...) {
      here.kernels.erase({image.id, image.entry});
      throw;
    }
  }
  return kernel;
}

void HostBackend::trim() {
  Table& here = table();
  const std::lock_guard lock(here.mutex);
  std::erase_if(here.kernels, [](const auto& kernel) { return kernel.second.use_count() == 1; });
}

// How many OS threads a launch is worth: starting one costs as much as some thousand fibers.
int HostBackend::workers(const LaunchShape& shape, std::uint64_t blocks) const {
  std::uint64_t most = RunnerPool::kRunners;
  if (options_.threads > 0) {
    most = std::min(most, static_cast<std::uint64_t>(options_.threads));
  } else {
    constexpr std::uint64_t kWorth = 2048;
    const auto threads = static_cast<std::uint64_t>(shape.threads());
    const std::uint64_t worth = blocks > kWorth ? blocks : blocks * threads / kWorth + 1;
    most = std::min({most, static_cast<std::uint64_t>(facts_.sm_count), worth});
  }
  return static_cast<int>(std::min(most, blocks));
}

// By the launch's own thread, which waits for a runner, or by another, which leaves the blocks to
// that one where it gets none or no stacks for it.
void HostBackend::run_blocks(const Launch& launch, BlockQueue& queue, FirstFault& fault,
                             bool own_thread) const {
  const KeptFloatingPoint kept;
  RunnerPool& pool = RunnerPool::of_process();
  std::unique_ptr<BlockRunner> runner;
  bool needed = own_thread, taken = false;
  try {
    runner = own_thread ? pool.wait_for_one() : pool.take();
    if (runner == nullptr) return;
    taken = true;
    runner->prepare(launch);
    needed = true;
    queue.work([&](std::uint64_t block) {
      if (std::string error = runner->run(block); !error.empty()) fault.set(std::move(error));
      return !fault;
    });
  } catch (const std::bad_alloc&) {
    runner.reset();
    if (needed) {
      fault.set(
          "the system gives no more memory, or mappings (vm.max_map_count), for its threads' "
          "stacks");
    }
  }
  if (taken) pool.put(std::move(runner));
}

void HostBackend::launch(const LoadedKernel& loaded, const LaunchShape& shape,
                         const void* arguments, Stream stream) const {
  expect_default(stream);
  const auto& kernel = static_cast<const HostKernel&>(loaded);
  if (const std::string fault = launch_fault(shape, target_.max_shared_bytes()); !fault.empty()) {
    throw Error(ErrorKind::invalid_argument, "host device: " + kernel.message() + " " + fault);
  }
  std::uint64_t blocks = 1;
  for (const std::int64_t extent : shape.grid) blocks *= static_cast<std::uint64_t>(extent);
  if (blocks == 0) return;

  const Launch launch{kernel, shape, arguments, options_.order, options_.seed};
  const int count = workers(shape, blocks);
  BlockQueue queue(blocks, count, options_.order, options_.seed);
  FirstFault fault;
  {
    std::vector<std::jthread> others;
    try {
      for (int i = 1; i < count; ++i) {
        others.emplace_back([&] { run_blocks(launch, queue, fault, false); });
      }
    } catch (const std::system_error&) {
      // No more threads to be had: those there are do it all.
    }
    run_blocks(launch, queue, fault, true);
  }
  if (fault) {
    throw Error(ErrorKind::driver, "host device: " + kernel.message() + ": " + fault.text());
  }
}

void* HostBackend::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, bytes) != 0) {
    throw Error(ErrorKind::driver,
                "host device: there is no memory for " + std::to_string(bytes) + " bytes");
  }
  return memory;
}

void HostBackend::copy_to_device(void* device, const void* host, std::size_t bytes, Stream stream) {
  expect_default(stream);
  if (bytes != 0) std::memcpy(device, host, bytes);
}

void HostBackend::copy_to_host(void* host, const void* device, std::size_t bytes, Stream stream) {
  expect_default(stream);
  if (bytes != 0) std::memcpy(host, device, bytes);
}

void HostBackend::fill(void* device, unsigned char byte, std::size_t bytes, Stream stream) {
  expect_default(stream);
  if (bytes != 0) std::memset(device, byte, bytes);
}

}  // namespace

std::shared_ptr<DeviceBackend> host_backend(const HostOptions& options) {
  return std::make_shared<HostBackend>(options);
}

}  // namespace tilec
