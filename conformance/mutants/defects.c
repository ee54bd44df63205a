/* defects.c - the lists of defects and oddities, as data. */
#include "mutants/defects.h"

const kc_defect kc_defects[] = {
#define DEFECT(name, rule, text) {#name, rule, text, KC_BY_SWITCH},
#define RACE(name, rule, text)   {#name, rule, text, KC_BY_RACE},
#include "mutants/defects.def"
#undef DEFECT
    {"needs_library", "load.open", "it needs a library of the build folder",
     KC_BY_LIBRARY},
    {"no_entry", "load.entry-symbol", "the entry symbol is misspelt",
     KC_BY_LIBRARY},
    {"exports_more", "load.exports-only", "it exports init and log",
     KC_BY_LIBRARY},
};
const uint32_t kc_defect_count =
    (uint32_t)(sizeof kc_defects / sizeof *kc_defects);

const char *const kc_oddities[][2] = {
#define ODDITY(name, text) {#name, text},
#include "mutants/oddities.def"
#undef ODDITY
};
const uint32_t kc_oddity_count =
    (uint32_t)(sizeof kc_oddities / sizeof *kc_oddities);
