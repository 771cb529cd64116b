// Loading: the object goes to a file without a name, and the system's loader takes it from there.
#include "device/host_kernel.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "device/backend.h"
#include "device/host_sanitizers.h"
#include "privilege.h"
#include "tilec/write_guard.h"

namespace tilec::host {
namespace {

// A file that no one else finds, holding the object.
struct ObjectFile {
  int descriptor = -1;
  std::filesystem::path name;  // to unlink once loaded; empty: none
};

[[noreturn]] void reject(const KernelImage& image, const std::string& why) {
  throw ImageRejected("host device: " + image.message + ": the object can't be loaded: " + why);
}

ObjectFile create_file() {
  ObjectFile file;
  file.descriptor = memfd_create("tilec-kernel", MFD_CLOEXEC);
  // A set-user-id program trusts no folder of the environment's with code that it will run.
  if (file.descriptor >= 0 || is_privileged()) return file;
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "tilec-kernel-XXXXXX").string();
  file.descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (file.descriptor >= 0) file.name = name;
  return file;
}

// The loader takes a path that it has seen before for the same library, even if another file is
// there now. So each file is opened by a spelling of its own: its inode, in bits that are "/" or
// "./".
std::string own_path(const ObjectFile& file) {
  if (!file.name.empty()) return file.name.string();
  struct stat status {};
  fstat(file.descriptor, &status);
  std::string path = "/proc/self/fd/";
  for (auto bits = static_cast<std::uint64_t>(status.st_ino); bits != 0; bits >>= 1) {
    path += (bits & 1) != 0 ? "./" : "/";
  }
  return path + std::to_string(file.descriptor);
}

// The size of the thread-local storage that the object asks for.
std::size_t thread_storage_size(const KernelImage& image) {
  ElfW(Ehdr) header;
  if (image.bytes.size() < sizeof header) reject(image, "it is too short");
  std::memcpy(&header, image.bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) reject(image, "it is no ELF file");
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    const std::size_t offset = header.e_phoff + i * sizeof segment;
    if (offset > image.bytes.size() || image.bytes.size() - offset < sizeof segment) {
      reject(image, "it is cut short");
    }
    std::memcpy(&segment, image.bytes.data() + offset, sizeof segment);
    if (segment.p_type == PT_TLS) return segment.p_memsz;
    // Mapping beyond the file's end would be a fault at the first touch.
    if (segment.p_type == PT_LOAD && segment.p_offset + segment.p_filesz > image.bytes.size()) {
      reject(image, "it is cut short");
    }
  }
  return 0;
}

}  // namespace

HostKernel::HostKernel(const KernelImage& image, const Calls& calls)
    : message_(image.message), thread_storage_bytes_(thread_storage_size(image)) {
  const ObjectFile file = create_file();
  std::string problem;
  if (file.descriptor < 0 || !cache::write_all(file.descriptor, image.bytes)) {
    problem = std::string("writing it to a temporary file: ") + std::strerror(errno);
  } else {
    library_ = dlopen(own_path(file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) problem = dlerror();
  }
  if (!file.name.empty()) unlink(file.name.c_str());
#if defined(TILEC_ADDRESS_SANITIZER)
  descriptor_ = file.descriptor;  // kept open: a report reads lines and names from it
#else
  if (file.descriptor >= 0) close(file.descriptor);
#endif
  if (problem.empty()) {
    image_ = static_cast<const Image*>(dlsym(library_, "tilec_host_image"));
    if (image_ == nullptr) {
      problem = "it does not come from tilec's host compiler";
    } else if (image_->abi != kAbi) {
      problem = "it was made by another version of tilec";
    } else if (image_->entry != image.entry) {
      problem = "its kernel is called " + std::string(image_->entry) + ", not " + image.entry;
    }
  }
  if (!problem.empty()) {
    if (library_ != nullptr) dlclose(library_);
    if (descriptor_ >= 0) close(descriptor_);
    reject(image, problem);
  }
  image_->connect(&calls);
}

HostKernel::~HostKernel() {
  dlclose(library_);
  if (descriptor_ >= 0) close(descriptor_);
}

std::span<std::byte> HostKernel::thread_storage() const {
  void* start = nullptr;
  image_->slots();  // the loader provides the storage at its first use
  if (dlinfo(library_, RTLD_DI_TLS_DATA, &start) != 0 || start == nullptr) return {};
  return {static_cast<std::byte*>(start), thread_storage_bytes_};
}

}  // namespace tilec::host
