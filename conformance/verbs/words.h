/* words.h - the words behind a verb: options, and the others. */
#ifndef KC_WORDS_H
#define KC_WORDS_H

#include "runner/results.h"

/* Prints "keel-conformance VERB: " and the text, and where help is; returns
 * KC_EXIT_USAGE. */
int kc_usage(const char *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* An option: one with a value, or a flag. A list of them ends with no name. */
typedef struct kc_word {
  const char *name;
  const char **value;
  bool *flag;
} kc_word;

typedef struct kc_words {
  const char *verb, *help;
  const kc_word *options; /* or NULL */
  uint32_t most, count;   /* of the other words */
  const char *others[4];
} kc_words;

/* Reads options wherever they stand ("--" ends them), and the other words in their
 * order. -1: go on; else the exit status: help was shown, or a word is wrong. */
int kc_words_read(kc_words *words, int argc, char **argv);

/* kc_words_read, then the results that the first word names, or those at `last`; where that
 * is NULL, one is needed. */
int kc_words_results(kc_words *words, const char *last, int argc, char **argv,
                     kc_results *out_results);

/* Whether a file can be opened and is no folder; else a message says what to do. */
bool kc_readable(const char *path);
/* Reads the results.jsonl that somebody named; false, with what to do, where it is none or
 * of a format that is not this suite's. One that was changed or cut between lines is read. */
bool kc_record_read(const char *path, kc_results *out_results);
/* Whether a record has its end and its lines are as they were written; says it if not. */
bool kc_record_whole(const char *path, const kc_results *results);

/* Shows the help where a word asks for it, and says whether one did. */
bool kc_helps(const char *help, int argc, char **argv);
/* The option that a word names, as "--name" or "--name=value"; NULL: none. */
const kc_word *kc_word_find(const kc_word *options, const char *word);
/* Takes argv[*at], which names the option, and its value. -1: go on. */
int kc_word_take(const char *verb, const kc_word *option, int argc, char **argv,
                 int *at);
/* The value of argv[*at], "--name VALUE" or "--name=VALUE"; a word that is an option is
 * no value. -1: go on. */
int kc_option_value(const char *verb, const char *name, int argc, char **argv,
                    int *at, const char **out_value);
/* A number without sign, and nothing behind it. */
bool kc_read_number(const char *text, uint64_t *out);
/* "2/5": the second of five parts, counted from 0. */
bool kc_read_part(const char *text, uint32_t *out_part, uint32_t *out_parts);
/* A number above 0, and where it ends. */
bool kc_read_factor(const char *text, const char **out_end, double *out);

#endif /* KC_WORDS_H */
