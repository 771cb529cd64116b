// The key's fields, in their order. Changing either makes every cache cold.
#include "compile/key.h"

namespace tilec {

cache::Key key(const CompileRequest& request, const Compiler& compiler) {
  cache::KeyHasher hasher;
  hasher.field("tilec", "1");
  hasher.field("target", request.target.name());
  for (const std::string& option : compiler.options(request.target)) hasher.field("option", option);
  for (const std::string& option : request.options) hasher.field("option", option);
  hasher.field("entry", request.source.entry);
  hasher.field("source", request.source.text);
  for (const Header& header : request.source.headers) {
    hasher.field("header", header.name);
    hasher.field("text", header.text);
  }
  return hasher.finish();
}

}  // namespace tilec
