/* text.h - what ops on strings share. */
#ifndef KEEL_TEXT_H
#define KEEL_TEXT_H

#include "base/utf8.h"
#include "ops/node.h"
#include "values/strings.h"

/* Attribute `name` as a list of strings, and how many; NULL: it is not given. */
const char *const *keel_attr_strings(const keel_opdef *op, const char *name,
                                     int64_t *out_count);

/* A regular expression, in RE2's syntax. Compiled once, used by any thread; freed with
 * keel_regex_free.
 * Returns KD_INVALID_ARGUMENT, what is wrong with it, or KD_UNIMPLEMENTED: Keel was built without
 * PCRE2. */
typedef struct keel_regex keel_regex;
keel_status keel_regex_create(const char *pattern, keel_regex **out_regex);
void keel_regex_free(void *regex);

/* Whether all of a string matches. */
keel_status keel_regex_matches(const keel_regex *regex, keel_piece piece,
                               bool *out_matches);

/* The first part of it, from byte `from` on, that matches and is not empty; found.at NULL: there
 * is none. The first call for a string has from = 0: this one looks whether it is UTF-8, and those
 * that follow take it for granted. */
keel_status keel_regex_find(const keel_regex *regex, keel_piece piece,
                            uint64_t from, keel_piece *out_found);

/* The same expression in PCRE2's syntax. Expressions that RE2 refuses are not detected. */
void keel_re2_to_pcre2(const char *pattern, keel_text *out_text);

#endif /* KEEL_TEXT_H */
