// The C++ types of all dtypes, for test cases that are made for each.
#pragma once

#include <doctest/doctest.h>

#include "tilec/dtype.h"

TYPE_TO_STRING_AS("f32", float);
TYPE_TO_STRING_AS("f64", double);
TYPE_TO_STRING_AS("f16", tilec::float16);
TYPE_TO_STRING_AS("bf16", tilec::bfloat16);
TYPE_TO_STRING_AS("s32", std::int32_t);

#define TILEC_ELEMENT_TYPES float, double, tilec::float16, tilec::bfloat16, std::int32_t
