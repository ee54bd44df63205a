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

/* Sets defaults, then reads options and the plugin's name. -1: go on; else the
 * exit status. */
int kc_options_read(kc_options *options, const char *verb, const char *help,
                    int argc, char **argv);
/* "cpu" or "./libacme.so" as an absolute path; false with a message. */
bool kc_find_plugin(const char *name, char out_path[4096]);

/* Renders results in a format ("html", "junit" ...) to a file. */
bool kc_render(const kc_results *results, const char *format, FILE *file);
extern const char kc_formats[];

#endif /* KC_MAIN_H */
