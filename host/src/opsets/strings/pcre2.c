/* pcre2.c - opens PCRE2. */
#ifdef KEEL_WITH_PCRE2
#include "opsets/strings/pcre2.h"

KEEL_IMPORT_WITH(keel_pcre2, keel_pcre2_functions, KEEL_PCRE2_LIBRARY,
                 KEEL_PCRE2_FUNCTIONS)
#else
typedef int keel_no_pcre2; /* a source has a declaration */
#endif
