/* words.c - the words behind a verb: options wherever they stand, and the others. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runner/run.h"
#include "verbs/words.h"

int kc_usage(const char *verb, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "keel-conformance %s: ", verb);
  vfprintf(stderr, format, args);
  fprintf(stderr, "; see keel-conformance %s --help\n", verb);
  va_end(args);
  return KC_EXIT_USAGE;
}

/* Whether a word that stands where a value is to be is an option: then the value was
 * forgotten. Negative numbers and "-" are none. */
static bool looks_like_option(const char *word) {
  return word[0] == '-' && (word[1] == '-' || isalpha((unsigned char)word[1]));
}

bool kc_helps(const char *help, int argc, char **argv) {
  for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
    if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) continue;
    fputs(help, stdout);
    return true;
  }
  return false;
}

int kc_option_value(const char *verb, const char *name, int argc, char **argv,
                    int *at, const char **out_value) {
  const char *equals = strchr(argv[*at], '=');
  if (equals) {
    *out_value = equals + 1;
    return -1;
  }
  if (*at + 1 >= argc) return kc_usage(verb, "%s needs a value", name);
  if (looks_like_option(argv[*at + 1]))
    return kc_usage(verb,
                    "%s needs a value, and \"%s\" is an option (%s=%s takes it"
                    " as the value)",
                    name, argv[*at + 1], name, argv[*at + 1]);
  *out_value = argv[++*at];
  return -1;
}

const kc_word *kc_word_find(const kc_word *options, const char *word) {
  size_t size = strcspn(word, "=");
  for (const kc_word *at = options; at && at->name; at++)
    if (strlen(at->name) == size && !strncmp(at->name, word, size)) return at;
  return NULL;
}

int kc_word_take(const char *verb, const kc_word *option, int argc, char **argv,
                 int *at) {
  if (option->value)
    return kc_option_value(verb, option->name, argc, argv, at, option->value);
  if (strchr(argv[*at], '='))
    return kc_usage(verb, "%s takes no value", option->name);
  *option->flag = true;
  return -1;
}

int kc_words_read(kc_words *words, int argc, char **argv) {
  bool more_options = true;
  if (kc_helps(words->help, argc, argv)) return 0;
  for (int i = 0; i < argc; i++) {
    if (more_options && !strcmp(argv[i], "--")) {
      more_options = false;
    } else if (more_options && argv[i][0] == '-' && argv[i][1]) {
      const kc_word *option = kc_word_find(words->options, argv[i]);
      if (!option)
        return kc_usage(words->verb, "unknown option \"%s\"", argv[i]);
      int status = kc_word_take(words->verb, option, argc, argv, &i);
      if (status >= 0) return status;
    } else if (words->count == words->most) {
      return kc_usage(words->verb, "\"%s\" is one word too many", argv[i]);
    } else {
      words->others[words->count++] = argv[i];
    }
  }
  return -1;
}

int kc_words_results(kc_words *words, const char *last, int argc, char **argv,
                     kc_results *out_results) {
  int status = kc_words_read(words, argc, argv);
  if (status >= 0) return status;
  const char *path = words->count ? words->others[0] : last;
  if (!path) return kc_usage(words->verb, "which results.jsonl?");
  return kc_record_read(path, out_results) ? -1 : KC_EXIT_USAGE;
}

bool kc_read_number(const char *text, uint64_t *out) {
  char *end = NULL;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return isdigit((unsigned char)*text) && !*end && !errno;
}

bool kc_read_part(const char *text, uint32_t *out_part, uint32_t *out_parts) {
  uint64_t part = 0, parts = 0;
  char first[24];
  size_t size = strcspn(text, "/");
  snprintf(first, sizeof first, "%.*s", (int)size, text);
  bool good = size < sizeof first && text[size] &&
              kc_read_number(first, &part) &&
              kc_read_number(text + size + 1, &parts) && parts <= 10000 &&
              part >= 1 && part <= parts;
  if (!good) return false;
  *out_part = (uint32_t)part - 1;
  *out_parts = (uint32_t)parts;
  return true;
}

bool kc_read_factor(const char *text, const char **out_end, double *out) {
  char *end = NULL;
  *out = strtod(text, &end);
  *out_end = end;
  return (isdigit((unsigned char)*text) || *text == '.') && end != text &&
         isfinite(*out) && *out > 0;
}
