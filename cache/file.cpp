#include "file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <memory>
#include <system_error>

#include "tilec/cache_key.h"

namespace tilec::cache {

namespace {

constexpr int always = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

// <linux/openat2.h>, which the headers of an older system lack while its kernel may be newer.
struct OpenHow {
  std::uint64_t flags;
  std::uint64_t mode;
  std::uint64_t resolve;
};
constexpr std::uint64_t no_magic_links = 0x02;
constexpr std::uint64_t no_symbolic_links = 0x04;
constexpr std::uint64_t beneath = 0x08;
#ifdef SYS_openat2
constexpr long openat2_number = SYS_openat2;
#else
constexpr long openat2_number = 437;
#endif

// For kernels and sandboxes without openat2: one folder at a time.
Descriptor open_step_by_step(int folder, std::string_view name, int flags, mode_t mode) {
  Descriptor here;
  for (std::size_t slash; (slash = name.find('/')) != std::string_view::npos;) {
    const std::string part(name.substr(0, slash));
    here = Descriptor(::openat(here ? here.get() : folder, part.c_str(),
                               O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!here) {
      if (errno == ENOTDIR) errno = ELOOP;
      return here;
    }
    name.remove_prefix(slash + 1);
  }
  return Descriptor(::openat(here ? here.get() : folder, std::string(name).c_str(), flags, mode));
}

// `write` takes the bytes that are left and the number of those done.
template <class Write>
bool write_with(std::span<const std::byte> bytes, const Write& write) {
  const WriteGuard guard;
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = write(bytes.subspan(done), done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (count == 0) {
      errno = EIO;
      return false;
    }
    done += static_cast<std::size_t>(count);
  }
  return true;
}

bool fill_random(std::span<std::uint8_t> out) {
  return ::getrandom(out.data(), out.size(), 0) == static_cast<ssize_t>(out.size());
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    descriptor_ = other.release();
  }
  return *this;
}

int Descriptor::release() {
  const int descriptor = descriptor_;
  descriptor_ = -1;
  return descriptor;
}

void Descriptor::reset() {
  if (descriptor_ < 0) return;
  const int saved = errno;
  ::close(descriptor_);
  descriptor_ = -1;
  errno = saved;
}

Descriptor open_beneath(int folder, const std::string& name, int flags, mode_t mode) {
  const OpenHow how{static_cast<std::uint64_t>(flags | always), (flags & O_CREAT) != 0 ? mode : 0,
                    beneath | no_symbolic_links | no_magic_links};
  const long descriptor = ::syscall(openat2_number, folder, name.c_str(), &how, sizeof how);
  if (descriptor >= 0) return Descriptor(static_cast<int>(descriptor));
  if (errno != ENOSYS && errno != EPERM && errno != EAGAIN) return Descriptor();
  return open_step_by_step(folder, name, flags | always, mode);
}

std::optional<std::vector<std::string>> names_in(int folder) {
  // A descriptor of its own: reading moves an offset that duplicates and forks share.
  const int own = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return std::nullopt;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own), ::closedir);
  if (!stream) {
    ::close(own);
    return std::nullopt;
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return std::nullopt;
  return names;
}

std::ptrdiff_t read_at(int descriptor, std::uint64_t offset, std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::pread(descriptor, out.data() + done, out.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return static_cast<std::ptrdiff_t>(done);
}

WriteGuard::WriteGuard() {
  ::sigemptyset(&ours_);
  ::sigaddset(&ours_, SIGXFSZ);
  ::sigaddset(&ours_, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &ours_, &mask_before_);
  sigset_t pending;
  if (::sigpending(&pending) != 0) return;
  for (const int signal : {SIGXFSZ, SIGPIPE}) {
    if (::sigismember(&pending, signal) == 1) ::sigdelset(&ours_, signal);
  }
}

WriteGuard::~WriteGuard() {
  const int saved = errno;
  constexpr timespec now{};
  while (::sigtimedwait(&ours_, nullptr, &now) > 0 || errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  errno = saved;
}

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  return write_with(bytes, [&](std::span<const std::byte> rest, std::size_t) {
    return ::write(descriptor, rest.data(), rest.size());
  });
}

bool write_all_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes) {
  return write_with(bytes, [&](std::span<const std::byte> rest, std::size_t done) {
    return ::pwrite(descriptor, rest.data(), rest.size(), static_cast<off_t>(offset + done));
  });
}

bool sync_file(int descriptor) {
  int result;
  do {
    result = ::fsync(descriptor);
  } while (result != 0 && errno == EINTR);
  return result == 0 || errno == EINVAL || errno == ENOSYS || errno == EROFS;
}

std::string random_name() {
  Key name;
  if (!fill_random(name.bytes)) {
    // No such call here. Creation is exclusive in any case, so a repeated name costs a retry.
    static std::atomic<std::uint64_t> count{0};
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    return KeyHasher{}
        .field("time", std::to_string(now))
        .field("thread", std::to_string(::syscall(SYS_gettid)))
        .field("count", std::to_string(++count))
        .finish()
        .hex();
  }
  return name.hex();
}

std::string error_text(int error) {
  return std::generic_category().message(error);
}

std::string write_error_text(int error) {
  if (error == ENOTDIR) return "something that is not a folder lies there; move it away";
  if (error == EISDIR) return "a folder lies there; move it away";
  rlimit limit{};
  if (error != EFBIG || ::getrlimit(RLIMIT_FSIZE, &limit) != 0) return error_text(error);
  if (limit.rlim_cur == RLIM_INFINITY) return "the file system takes no file of this size";
  return "this process may write files of at most " + std::to_string(limit.rlim_cur) +
         " bytes (ulimit -f)";
}

}  // namespace tilec::cache
