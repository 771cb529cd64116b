// Keys: golden values, and what must and must not change them.
#include <clocale>
#include <cstring>
#include <locale>
#include <unordered_set>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "entry_format.h"
#include "metadata.h"
#include "support.h"

namespace tilec::cache::test {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

Key key_from(const Fields& fields) {
  KeyHasher hasher;
  for (const auto& [name, value] : fields) hasher.field(name, value);
  return hasher.finish();
}

// Decimal commas and grouped thousands, for streams and for the C library.
class CommaLocale {
 public:
  CommaLocale()
      : cpp_(std::locale::global(std::locale(std::locale(), new Commas))),
        c_(std::setlocale(LC_ALL, nullptr)) {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"}) {
      if (std::setlocale(LC_ALL, name)) break;
    }
  }
  ~CommaLocale() {
    std::setlocale(LC_ALL, c_.c_str());
    std::locale::global(cpp_);
  }

 private:
  struct Commas : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  std::locale cpp_;
  std::string c_;
};

TEST_SUITE("cpu tsan") {
  TEST_CASE("golden keys") {
    const std::vector<std::pair<Fields, std::string>> golden = {
        {{}, "ada8f5873662843870e6727c76dae4a6"},
        {{{"target", "sm_90a"}}, "8c9240dfb3231aad2584136ea5d33b57"},
        {{{"target", "sm_90a"}, {"source", "__global__ void k() {}\n"}},
         "f49dd7ffa824e07e407f89ebd403ed04"},
        {{{"source", std::string(1000, 'x')}}, "f02eac0e7aa85d2184ce0c8305505c4f"},
        {{{"", ""}}, "e4eee23e5324f2fd4b819c5039a92d34"},
        {{{"zero", std::string("a\0b", 3)}, {"ümlaut", "日本"}},
         "e127f02a7cc9f5a72329301dca138c92"},
    };
    for (const auto& [fields, hex] : golden) {
      CHECK(key_from(fields).hex() == hex);
      const CommaLocale comma;
      CHECK(key_from(fields).hex() == hex);
    }
  }

  TEST_CASE("fields keep their borders and their order") {
    const std::vector<Fields> all_different = {
        {},
        {{"", ""}},
        {{"", ""}, {"", ""}},
        {{"a", "bc"}},
        {{"ab", "c"}},
        {{"abc", ""}},
        {{"", "abc"}},
        {{"a", "b"}, {"c", "d"}},
        {{"c", "d"}, {"a", "b"}},
        {{"a", "bcd"}},
    };
    std::unordered_set<Key> keys;
    for (const Fields& fields : all_different) keys.insert(key_from(fields));
    CHECK(keys.size() == all_different.size());
  }

  TEST_CASE("hexadecimal digits and back") {
    const Key key = key_of(7);
    CHECK(key.hex().size() == 32);
    CHECK(Key::parse(key.hex()) == key);
    CHECK(key_of(7) == key);
    CHECK(key_of(8) != key);
  }

  TEST_CASE("nothing else is a key") {
    const std::string good = key_of(1).hex();
    std::string upper = good;
    upper.back() = 'A';
    std::string slash = good;
    slash[3] = '/';
    std::string zero = good;
    zero[4] = '\0';
    for (const std::string& bad : {std::string(), good.substr(1), good + "0", upper, slash, zero,
                                   "../" + good, " " + good.substr(1), std::string(32, 'g')}) {
      CHECK_FALSE(Key::parse(bad));
    }
  }

  TEST_CASE("an entry's bytes know no locale") {
    const Bytes payload = cubin(100, 1);
    const Bytes plain = encode_entry_head(key_of(1), cubin_metadata(), payload);
    CHECK(
        key_from({{"head", std::string(reinterpret_cast<const char*>(plain.data()), plain.size())}})
            .hex() == "a0416c5896d6bcc4243c0baf1924e7fb");
    const CommaLocale comma;
    CHECK(encode_entry_head(key_of(1), cubin_metadata(), payload) == plain);
    const std::string fields = encode_metadata(cubin_metadata());
    CHECK(decode_metadata(fields) == cubin_metadata());
  }
}

}  // namespace
}  // namespace tilec::cache::test
