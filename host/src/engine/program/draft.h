/* draft.h - a node on its way into a function: written for some opset, and to be brought
 * to today's form. */
#ifndef KEEL_DRAFT_H
#define KEEL_DRAFT_H

#include "program/function.h"

/* The newest opset of ai.onnx whose changes to Keel's ops are known: each has its meaning up to
 * here, or an upgrade that refuses it. tests/onnx_schemas.py compares the table with ONNX's
 * own. */
#define KEEL_OPSET_KNOWN 28

/* The same of ai.onnx.ml; of other domains it is the version in which an op is known. */
#define KEEL_ML_OPSET_KNOWN 5

#define KEEL_DRAFT_ATTRS 40
#define KEEL_DRAFT_EXTRA 8 /* inputs that an upgrade may add */

typedef struct keel_draft {
  keel_function *function;
  const char *path; /* of the model or program, for messages */
  const char *name; /* the node's */
  const char *op;
  const char *domain; /* "": ONNX's */
  int64_t opset;      /* that the node is written for, of its domain */
  keel_attr attrs[KEEL_DRAFT_ATTRS];
  keel_function *graphs[KEEL_DRAFT_ATTRS];
  uint32_t attr_count;
  uint32_t *inputs; /* with room for KEEL_DRAFT_EXTRA more */
  uint32_t input_count;
  uint32_t *outputs;
  uint32_t output_count;
  uint32_t outputs_written; /* those behind the last that has a name, too */
} keel_draft;

/* Refuses parts of a draft that Keel's tables of ops do not have: an op, an attribute of a later
 * opset, a type that the op does not take. For drafts of models, which are taken to be right.
 * Returns KD_OK, KD_UNIMPLEMENTED. */
keel_status keel_draft_check(const keel_draft *draft);

/* Adds the node, and infers its types. out_node: may be NULL. */
keel_status keel_draft_add(const keel_draft *draft, keel_node **out_node);

#endif /* KEEL_DRAFT_H */
