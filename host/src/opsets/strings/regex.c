/* regex.c - regular expressions, by PCRE2. ONNX asks for RE2's syntax: re2.c writes it as PCRE2's;
 * `$` is the string's end alone, as in RE2. A match has a limit of steps, which RE2 need not have:
 * an expression cannot make a run endless. \C, of one byte, is refused: PCRE2 must not stop within
 * a character. */
#include "opsets/strings/text.h"

#ifdef KEEL_WITH_PCRE2
#include "opsets/strings/pcre2.h"
#include "threads/cancel.h"

/* A match has this many steps at first and, where these do not do, eight times as many,
 * PATIENCE times in all: the run may end before each attempt. */
#define STEPS       40000u
#define PATIENCE    4
#define MEMORY_MOST (64u << 10) /* KiB of one match */
/* bytes: writing one as PCRE2's may take their square */
#define PATTERN_MOST (64u << 10)

struct keel_regex {
  pcre2_code *code;
  pcre2_match_context *limits[PATIENCE];
};

static keel_status regex_compile(const char *pattern, const char *translated,
                                 keel_regex *regex) {
  int error = 0;
  PCRE2_SIZE at = 0;
  regex->code =
      pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C,
                    &error, &at, NULL);
  if (!regex->code) {
    PCRE2_UCHAR text[160];
    pcre2_get_error_message(error, text, sizeof text);
    return keel_fail(KD_INVALID_ARGUMENT,
                     "the regular expression \"%.100s\", for PCRE2 \"%.200s\","
                     " is wrong at byte %zu of the latter: %s",
                     pattern, translated, (size_t)at, (const char *)text);
  }
  for (uint32_t i = 0, steps = STEPS; i < PATIENCE; i++, steps *= 8) {
    regex->limits[i] = pcre2_match_context_create(NULL);
    if (!regex->limits[i]) return keel_no_memory(1);
    pcre2_set_match_limit(regex->limits[i], steps);
    pcre2_set_heap_limit(regex->limits[i], MEMORY_MOST);
  }
  return KD_OK;
}

keel_status keel_regex_create(const char *pattern, keel_regex **out_regex) {
  if (!keel_pcre2())
    return keel_fail(KD_UNAVAILABLE,
                     "regular expressions are read by PCRE2, and there is "
                     "no " KEEL_PCRE2_LIBRARY
                     " that has what Keel calls; install libpcre2-8-0");
  size_t bytes = strlen(pattern);
  if (bytes > PATTERN_MOST)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "the regular expression \"%.40s...\" has %zu bytes, and"
                     " may have %u; make several of it",
                     pattern, bytes, PATTERN_MOST);
  keel_regex *regex = calloc(1, sizeof *regex);
  if (!regex) return keel_no_memory(sizeof *regex);
  keel_text text = {0};
  keel_re2_to_pcre2(pattern, &text);
  keel_status status =
      text.failed ? KD_OUT_OF_MEMORY
                  : regex_compile(pattern, keel_text_get(&text), regex);
  keel_text_free(&text);
  if (status == KD_OK)
    *out_regex = regex;
  else
    keel_regex_free(regex);
  return status;
}

void keel_regex_free(void *regex) {
  keel_regex *self = regex;
  if (!self) return;
  for (uint32_t i = 0; i < PATIENCE; i++)
    pcre2_match_context_free(self->limits[i]);
  pcre2_code_free(self->code);
  free(self);
}

static keel_status match(const keel_regex *regex, keel_piece piece,
                         uint64_t from, uint32_t how, keel_piece *out_found) {
  bool moved = false; /* PCRE2 forbids \K in most places where it can do so */
  *out_found = (keel_piece){NULL, 0};
  pcre2_match_data *data =
      pcre2_match_data_create_from_pattern(regex->code, NULL);
  if (!data) return keel_no_memory(1);
  int found = PCRE2_ERROR_MATCHLIMIT;
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < PATIENCE && found == PCRE2_ERROR_MATCHLIMIT; i++) {
    status = keel_cancellation_look();
    if (status != KD_OK) break;
    found = pcre2_match(regex->code, (PCRE2_SPTR)piece.at, piece.size, from,
                        how, data, regex->limits[i]);
  }
  if (found > 0) {
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(data);
    moved = ends[0] < from || ends[1] < ends[0];
    *out_found = (keel_piece){piece.at + ends[0], ends[1] - ends[0]};
  }
  pcre2_match_data_free(data);
  KEEL_TRY(status);
  if (moved)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "the regular expression moves the begin of its match (\\K)"
                     " out of the match; leave \\K out");
  if (found > 0 || found == PCRE2_ERROR_NOMATCH) return KD_OK;
  PCRE2_UCHAR text[160];
  pcre2_get_error_message(found, text, sizeof text);
  return keel_fail(
      found == PCRE2_ERROR_NOMEMORY ? KD_OUT_OF_MEMORY : KD_INVALID_ARGUMENT,
      "the string \"%.60s\" can't be matched: %s", piece.at,
      (const char *)text);
}

keel_status keel_regex_matches(const keel_regex *regex, keel_piece piece,
                               bool *out_matches) {
  keel_piece found;
  keel_status status =
      match(regex, piece, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED, &found);
  *out_matches = found.at != NULL;
  return status;
}

keel_status keel_regex_find(const keel_regex *regex, keel_piece piece,
                            uint64_t from, keel_piece *out_found) {
  /* each look at all of the string would make a text's cost its square */
  uint32_t how = from ? PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK : PCRE2_NOTEMPTY;
  return match(regex, piece, from, how, out_found);
}

#else

keel_status keel_regex_create(const char *pattern, keel_regex **out_regex) {
  (void)pattern;
  *out_regex = NULL;
  return keel_fail(KD_UNIMPLEMENTED,
                   "this Keel was built without PCRE2, which regular"
                   " expressions need; install libpcre2-dev, and build it"
                   " again");
}

void keel_regex_free(void *regex) {
  (void)regex;
}

keel_status keel_regex_matches(const keel_regex *regex, keel_piece piece,
                               bool *out_matches) {
  (void)regex;
  (void)piece;
  *out_matches = false;
  return KD_UNIMPLEMENTED;
}

keel_status keel_regex_find(const keel_regex *regex, keel_piece piece,
                            uint64_t from, keel_piece *out_found) {
  (void)regex;
  (void)piece;
  (void)from;
  *out_found = (keel_piece){NULL, 0};
  return KD_UNIMPLEMENTED;
}

#endif
