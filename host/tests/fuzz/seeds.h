/* seeds.h - models to begin with: ONNX's own cases, each with the inputs that stand beside
 * it, and a node of each op that no case has alone. */
#ifndef KEEL_FUZZ_SEEDS_H
#define KEEL_FUZZ_SEEDS_H

#include <stddef.h>

#include "program/hostile.h"
#include "random.h"

typedef struct fuzz_seed {
  char *name; /* of its folder, or its op */
  char *op;   /* of its first node */
  bool is_one_node;
  uint8_t *data;
  size_t size;
  hostile_inputs inputs; /* none: count is 0 */
  uint8_t *form;         /* in another form, by who needs that; NULL: not yet */
  size_t form_size;      /* 0: it has none */
} fuzz_seed;

typedef struct fuzz_seeds {
  fuzz_seed *list; /* by op */
  size_t count, op_count;
} fuzz_seeds;

/* Reads DATA/SET/CASE/model.onnx of the sets of ONNX's test data, but for large ones. */
fuzz_seeds fuzz_seeds_read(keel_context *context, const char *data);
/* Reads FOLDER/NAME.mlirbc, and NAME.in (hostile.h) beside it. */
fuzz_seeds fuzz_seeds_artifacts(keel_context *context, const char *folder);
void fuzz_seeds_drop(fuzz_seeds *seeds);

/* One of them: any, or one of an op that each is as likely as the others. */
fuzz_seed *fuzz_seeds_pick(const fuzz_seeds *seeds, fuzz_random *random);

#endif /* KEEL_FUZZ_SEEDS_H */
