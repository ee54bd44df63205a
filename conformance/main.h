/* main.h - the verbs of keel-conformance; each gets the words behind its name,
 * and returns the exit status. */
#ifndef KC_MAIN_H
#define KC_MAIN_H

#include "runner/run.h"

int kc_verb_run(int argc, char **argv);
int kc_verb_list(int argc, char **argv);
int kc_verb_explain(int argc, char **argv);
int kc_verb_again(int argc, char **argv);
int kc_verb_compare(int argc, char **argv);
int kc_verb_render(int argc, char **argv);
int kc_verb_coverage(int argc, char **argv);
int kc_verb_pack(int argc, char **argv);
int kc_verb_verify(int argc, char **argv);
int kc_verb_self_test(int argc, char **argv);
int kc_verb_bench(int argc, char **argv);
int kc_verb_doctor(int argc, char **argv);

/* Prints "keel-conformance VERB: " and the text, and where help is; returns
 * KC_EXIT_USAGE. */
int kc_usage(const char *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- the words behind a verb (runner/words.c) -------------------------------------- */

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
/* A number above 0, and where it ends. */
bool kc_read_factor(const char *text, const char **out_end, double *out);

/* Sets defaults, then reads a run's options, those of `words`, and the plugin's name.
 * allowed: the options that it takes, with spaces between; NULL: all of a run's. -1: go
 * on; else the exit status. */
int kc_options_read(kc_options *options, const kc_words *words,
                    const char *allowed, int argc, char **argv);
/* "cpu" or "./libacme.so" as an absolute path; false with a message. */
bool kc_find_plugin(const char *name, char out_path[4096]);

/* Renders results in a format ("html", "junit" ...) to a file. */
bool kc_render(const kc_results *results, const char *format, FILE *file);
/* Cases of an op and an element type (NULL: of any): that ran, that failed, and that the
 * plugin has no kernel for. */
typedef struct kc_cell {
  uint32_t cases, failed, absent;
} kc_cell;
kc_cell kc_coverage_cell(const kc_results *results, const char *op,
                         const char *dtype);

extern const char kc_formats[]; /* with spaces between */
bool kc_is_format(const char *name);

/* Runs what is chosen in this process, and prints what happens. Returns the exit
 * status. */
int kc_in_process(const kc_options *options);

#endif /* KC_MAIN_H */
