// Which sanitizer this is compiled with: GCC and Clang tell it by different names.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TILEC_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define TILEC_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TILEC_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define TILEC_THREAD_SANITIZER 1
#endif
