/* pcre2.h - PCRE2, opened when it is first needed (system/imported.h). */
#ifndef KEEL_OPS_PCRE2_H
#define KEEL_OPS_PCRE2_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "system/imported.h"

#define KEEL_PCRE2_FUNCTIONS(X)             \
  X(pcre2_code_free_8)                      \
  X(pcre2_compile_8)                        \
  X(pcre2_get_error_message_8)              \
  X(pcre2_get_ovector_pointer_8)            \
  X(pcre2_match_8)                          \
  X(pcre2_match_context_create_8)           \
  X(pcre2_match_context_free_8)             \
  X(pcre2_match_data_create_from_pattern_8) \
  X(pcre2_match_data_free_8)                \
  X(pcre2_set_heap_limit_8) X(pcre2_set_match_limit_8)

typedef struct keel_pcre2_functions {
  KEEL_PCRE2_FUNCTIONS(KEEL_IMPORTED_FIELD)
} keel_pcre2_functions;

#define KEEL_PCRE2_LIBRARY "libpcre2-8.so.0"

/* PCRE2's functions; NULL where there is no PCRE2. Any thread. */
const keel_pcre2_functions *keel_pcre2(void);

/* For those that have seen that it is not NULL.
 * NOLINTBEGIN(readability-identifier-naming): the names are the library's */
#define pcre2_code_free_8            keel_pcre2()->pcre2_code_free_8
#define pcre2_compile_8              keel_pcre2()->pcre2_compile_8
#define pcre2_get_error_message_8    keel_pcre2()->pcre2_get_error_message_8
#define pcre2_get_ovector_pointer_8  keel_pcre2()->pcre2_get_ovector_pointer_8
#define pcre2_match_8                keel_pcre2()->pcre2_match_8
#define pcre2_match_context_create_8 keel_pcre2()->pcre2_match_context_create_8
#define pcre2_match_context_free_8   keel_pcre2()->pcre2_match_context_free_8
#define pcre2_match_data_create_from_pattern_8 \
  keel_pcre2()->pcre2_match_data_create_from_pattern_8
#define pcre2_match_data_free_8 keel_pcre2()->pcre2_match_data_free_8
#define pcre2_set_heap_limit_8  keel_pcre2()->pcre2_set_heap_limit_8
#define pcre2_set_match_limit_8 keel_pcre2()->pcre2_set_match_limit_8
/* NOLINTEND(readability-identifier-naming) */

#endif /* KEEL_OPS_PCRE2_H */
