/* registry.h - the parts that libkeel is made of: tables of ops, the list of passes, and the
 * functions of lower rooms that the engine calls.
 *
 * The engine names no op and calls no room below it; both come through here. registry.c, which
 * sees all rooms, fills this in before main begins. */
#ifndef KEEL_REGISTRY_H
#define KEEL_REGISTRY_H

#include <stdio.h>

#include "ops/node.h"

struct keel_call_site;
struct keel_draft;
struct keel_emit;
struct keel_function;
struct keel_gradient;
struct keel_pass;
struct keel_work;

/* Facts of an op beyond its schema. An op may have several rules, in different tables; each member
 * may be NULL. Their traits are joined; if several rules set another member, the last one in the
 * tables' order counts, without an error. */
typedef struct keel_op_rule {
  const char *op; /* DOMAIN::NAME, or the name of one of ONNX's */
  /* Writes a node with simpler ops, if its device has no kernel for it. */
  void (*expand)(struct keel_emit *all);
  /* The same as a text (opsets/text.h). */
  const char *body;
  /* Gives the gradients of its inputs, by those of its outputs; and as a text. */
  void (*gradient)(struct keel_gradient *g);
  const char *slopes;
  /* Steps of a kernel beside those for each element that it reads and writes. */
  uint64_t (*steps)(const struct keel_work *work);
  /* Multiplications and additions of a kernel; without a rule, or at 0, one an output element. */
  double (*flops)(const struct keel_flops_of *of);
  /* The strides of output `index` in the memory of input 0; false: it is not a strided view. *out
   * has the input's strides at first. */
  bool (*view)(const struct keel_parts *all, const struct keel_node *node,
               uint32_t index, struct keel_strides *out);
  uint32_t traits; /* KEEL_OP_STRINGS ... (schema.h) */
} keel_op_rule;

/* A body of an op of ai.onnx, which other ops of ai.onnx compute: its text, in the language of
 * ops.def. Of an op's bodies, the first that can run is used. */
typedef struct keel_op_body {
  const char *op, *text;
} keel_op_body;

/* What brings a node of an op of ai.onnx that is written for opsets [from, before) to today's form; of
 * an op's rows, the first that fits. */
typedef struct keel_op_upgrade {
  const char *op;
  int64_t from, before;
  keel_status (*upgrade)(struct keel_draft *draft);
} keel_op_upgrade;

/* A subject of an op set. */
typedef struct keel_op_table {
  const keel_schema_row *rows;
  uint32_t row_count;
  const keel_op_rule *rules;
  uint32_t rule_count;
  const keel_op_body *bodies;
  uint32_t body_count;
  const keel_op_upgrade *upgrades;
  uint32_t upgrade_count;
} keel_op_table;

typedef struct keel_registry {
  const keel_op_table *const *tables;
  uint32_t table_count;
  const struct keel_pass *passes; /* in their order */
  uint32_t pass_count;
  /* Upgrades a node of an older opset. */
  keel_status (*upgrade)(struct keel_draft *draft);
  /* Op sets that this libkeel was built without, each after a space. */
  const char *left_out;
  /* Whether a call reads or makes strings; NULL: libkeel was built without them, and so is
   * call_on_strings. */
  bool (*has_strings)(const keel_opdef *op, keel_tensor *const *inputs,
                      uint32_t n);
  /* Runs such a call, on numbers that stand for the strings. */
  keel_status (*call_on_strings)(const struct keel_call_site *site,
                                 keel_device *wanted,
                                 keel_tensor *const *inputs, uint32_t n,
                                 keel_tensor **outputs, uint32_t m);
  /* Writes a function as text, with large constants left out, for --dump-after. */
  keel_status (*write_text)(const struct keel_function *main,
                            keel_device *device, FILE *file);
} keel_registry;

/* Sets the registry; registry.c calls it before main, so that keel_open finds it. */
void keel_registry_fill(void);
void keel_registry_use(const keel_registry *registry);
const keel_registry *keel_registry_get(void);

#endif /* KEEL_REGISTRY_H */
