/* equation.h - the parsed equation of an Einsum: "bij,bjk->bik". */
#ifndef KEEL_EQUATION_H
#define KEEL_EQUATION_H

#include "values/type.h"

#define KEEL_TERMS  16 /* operands, at most */
#define KEEL_DOTS   128
#define KEEL_LABELS (KEEL_DOTS + KD_MAX_RANK)

/* The labels of one operand, a dimension each: a letter, or KEEL_DOTS + a dimension's place
 * from the right of those that "..." stands for. */
typedef struct keel_labels {
  uint32_t rank;
  uint8_t at[KD_MAX_RANK];
} keel_labels;

typedef struct keel_equation {
  uint32_t count; /* operands */
  keel_labels in[KEEL_TERMS], out;
  int64_t size[KEEL_LABELS]; /* by label: what its dimensions broadcast to */
  /* by label: how many dimensions of operands have it */
  uint32_t seen[KEEL_LABELS];
  char problem[80]; /* the reason, if it is invalid */
} keel_equation;

/* Parses an equation for operands of these types, whose dimensions are known. False if it
 * is invalid or does not fit them; `problem` says why. */
bool keel_equation_read(const char *text, const keel_type *const *types,
                        uint32_t count, keel_equation *out);

#endif /* KEEL_EQUATION_H */
