/* sizes.h - what --shape and --dim give to open dimensions of a model's inputs. */
#ifndef KEEL_TOOL_SIZES_H
#define KEEL_TOOL_SIZES_H

#include "tool.h"

typedef struct given_sizes {
  const char *command; /* that messages name */
  const word_list *shapes, *dims;
} given_sizes;

/* The text after "NAME=" if NAME is this; else NULL. */
const char *sizes_value_for(const char *word, const char *name);

/* Fills dims by --shape for an input; false if none is given. */
bool sizes_shape(const given_sizes *given, const char *name, uint32_t *rank,
                 int64_t *dims);

/* The size by --dim of an open dimension of an input; -1: none. */
int64_t sizes_dim(const given_sizes *given, const keel_port *port,
                  uint32_t dim);

/* Whether each word is of a dimension or an input that is there, and none contradicts another; if
 * not, reports which. `whole`: each --dim is looked at, which has one size a name. */
bool sizes_check(const given_sizes *given, const keel_port *ports,
                 uint32_t count, bool whole);

/* A program with these sizes, of as many as are given; NULL: nothing is given, or that failed.
 * Returns 0, or the exit status of what was reported. */
int sizes_fix(const given_sizes *given, const keel_program *program,
              keel_program **out_program);

#endif /* KEEL_TOOL_SIZES_H */
