/* parting.h - the commands' output and options for splits of models (keel/split.h). */
#ifndef KEEL_PARTING_H
#define KEEL_PARTING_H

#include <keel/link.h>
#include <keel/split.h>

#include "tool.h"

/* The kind that a word means, KEEL_SPLIT_*; -1: none. */
int parting_kind(const char *word);

/* Whether --split and --parts are as they can be. Returns -1, or the exit status: what is wrong was
 * reported. */
int parting_check(const char *command, const char *split, uint64_t parts);

/* The sizes of --dim, which a split asks for. */
typedef struct parting_dims {
  const word_list *given;
  bool used[WORDS_MOST];
  char names
      [512]; /* of dimensions that it has asked for, each in quotes behind a space */
} parting_dims;

/* The size of an open dimension, or -1; of several for one name the first. */
int64_t parting_size(parting_dims *dims, const char *symbol);

/* Whether a split, which returned `status`, has asked for each; if not, reports the first that is
 * not a dimension's. True, too, if it failed before it asked for any. */
bool parting_knows(const parting_dims *dims, const char *command,
                   keel_status status);

/* How fast the ranks are: these devices, or, of a link, each rank's own. Those of one kind of
 * device count as equally fast. The caller frees them; NULL: that failed, which was reported. */
keel_split_speed *parting_speeds(keel_link *link, keel_device *const *devices,
                                 uint32_t count);

/* A rank's share, in a line. */
void parting_print(const char *split, const keel_split_facts *facts);

#endif /* KEEL_PARTING_H */
