// Who may have written what we are about to believe. A path is opened part by part: each folder must
// belong to the effective user or root and be writable by nobody else; sticky parents are excepted.
// A link on the way, or at its end, must be such a user's, too. A group whose number is the owner's
// counts as the owner (a user's private group; root's in a container image). No state.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "file.h"

namespace tilec::cache {

enum class Trust {
  own,        // belongs to the effective user
  read_only,  // belongs to the effective user or root
  shared,     // whoever: the user has named it
  parent,     // as the folders above: also sticky; the file in it is judged by itself
};

// Why something is not used; empty if it is.
struct Refusal {
  std::string fault{};     // a clause
  std::string remedy{};    // a clause: what may be done about it; or empty
  bool untrusted = false;  // the fault is one of owners or modes

  explicit operator bool() const { return !fault.empty(); }
  std::string text() const { return remedy.empty() ? fault : fault + "; " + remedy; }
};

struct OpenedPath {
  Descriptor descriptor;  // empty if refused
  struct stat info {};
  std::filesystem::path path;  // canonical
  Refusal refusal;
};

// `create` makes what is missing with mode 0700, but only beneath what can be trusted.
OpenedPath open_folder(const std::filesystem::path& path, Trust trust, bool create);
// For reading, without waiting for what is no regular file; of whatever kind it is.
OpenedPath open_file(const std::filesystem::path& path, Trust trust);

// What is wrong with a file or folder itself, a clause after "it"; or an empty string.
std::string distrust(const struct stat& info, Trust trust);

std::string mode_text(mode_t mode);  // "0755"

// Makes the mode of something just created independent of the umask. A file system may refuse that
// (CIFS, exFAT, FUSE): false, with errno set, if others can then write to it, or read a file, that
// were not to, or its owner can't use it.
bool set_mode(int descriptor, mode_t mode);
// The same of a folder in another one; never follows a link.
bool set_folder_mode(int parent, const std::string& name, mode_t mode);

}  // namespace tilec::cache
