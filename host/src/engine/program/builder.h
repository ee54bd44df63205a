/* builder.h - the inside of keel_builder, shared by its files. */
#ifndef KEEL_BUILDER_H
#define KEEL_BUILDER_H

#include "program/function.h"

typedef struct keel_domain_opset {
  char domain[64]; /* "": ONNX's */
  int64_t version;
} keel_domain_opset;

struct keel_builder {
  keel_context *context;
  keel_program *program;   /* of the outermost builder */
  keel_function *function; /* NULL: finished, or an op has taken it over */
  char *node_name;         /* of the ops that follow, or NULL */
  keel_domain_opset *opsets;
  uint32_t opset_count, opset_capacity;

  /* of a body */
  keel_builder *outer; /* NULL: it's no body, or that is destroyed */
  bool body;
  uint32_t *captured, *captures; /* values of `outer`, and their values here */
  uint32_t capture_count, capture_capacity;

  keel_builder *bodies, *next; /* those of this one, by `next` */

  keel_status status; /* the first failure */
  char message[1024];
};

/* Keeps the first failure; returns `status`. */
keel_status keel_builder_sticky(keel_builder *builder, keel_status status);

/* Fails again with the first failure. */
keel_status keel_builder_again(const keel_builder *builder);

/* Checks that something can be added. */
keel_status keel_builder_open(const keel_builder *builder);

/* ---- body.c ---- */

/* The function of a body that is complete: what it captures are its last inputs. The
 * body's builder is then empty. op: that takes it over, for messages. */
keel_status keel_builder_take_body(keel_builder *outer, keel_builder *body,
                                   const char *op,
                                   keel_function **out_function);

/* Ends the bodies that were started in a builder: they can't be added to any more. Those
 * that no op has taken over go. */
void keel_builder_drop_bodies(keel_builder *builder);

/* Takes a body out of the builder around it, with its function if no op has that. */
void keel_builder_leave(keel_builder *body);

#endif /* KEEL_BUILDER_H */
