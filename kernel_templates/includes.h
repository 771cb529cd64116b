// What a template's text includes, and by whom it is given. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tilec/kernel_template.h"

namespace tilec {

struct Include {
  std::string name;       // without its quotes or brackets; of a computed one, what stands there
  bool computed = false;  // by a macro, or unreadable: which file it is, only the compiler can tell

  bool operator==(const Include&) const = default;
};

// The #include directives of a text, as a compiler's preprocessor reads them: comments, spliced lines,
// digraphs and string literals are known, and what an #if leaves out counts too, as do names that
// __has_include asks for, and whatever compilers may read differently.
std::vector<Include> includes(std::string_view text);

// The user's headers come first; a name that neither of us knows (nullptr) is the toolkit's.
const Header* find_header(const KernelTemplate& kernel, std::string_view name);

// What the template includes in a way that its headers and the toolkit's folders don't answer for, so
// that no key could see its text: a sentence, or empty.
std::string unseen_include(const KernelTemplate& kernel);

}  // namespace tilec
