/* verbs.h - the verbs of keel-conformance; each gets the words behind its name,
 * and returns the exit status. */
#ifndef KC_VERBS_H
#define KC_VERBS_H

#include "runner/run.h"
#include "verbs/words.h"

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

/* Sets defaults, then reads a run's options, those of `words`, and the plugin's name.
 * allowed: the options that it takes, with spaces between; NULL: all of a run's. -1: go
 * on; else the exit status. */
int kc_options_read(kc_options *options, const kc_words *words,
                    const char *allowed, int argc, char **argv);
/* "cpu" or "./libacme.so" as an absolute path; false with a message. */
bool kc_find_plugin(const char *name, char out_path[4096]);

/* What `list` has more of: the defects of self-test, and the text of README.md (list.c). */
void kc_list_defects(void);
void kc_list_markdown(void);
/* The name of a rule's defect, and what it is; NULL past the last. */
const char *kc_defects_of(const char *rule, uint32_t index,
                          const char **out_text);

#endif /* KC_VERBS_H */
